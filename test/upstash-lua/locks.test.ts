// What a script on gopher-lua excludes while it runs: all commands, or with the flag those on its keys.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type ScriptServer, startScriptServer } from '../../local/script-server.ts';

const FLAG = '#!lua flags=allow-key-locking\n';
const CLIENTS = 6;

let server: ScriptServer;
let direct: Redis;
let clients: Redis[];
beforeAll(async () => {
  server = await startScriptServer({ port: 0, name: 'locks', lua: 'gopher' });
  direct = new Redis(server.redis.port);
  clients = Array.from({ length: CLIENTS }, () => new Redis(server.port));
});
afterAll(async () => {
  for (const client of [...clients, direct]) client.disconnect();
  await server.stop();
});
beforeEach(async () => void (await direct.flushall()));

const everyone = (act: (client: Redis, i: number) => Promise<unknown>) => Promise.all(clients.map(act));
const client = (i: number) => clients[i] ?? direct;

/** Reads, then writes one more. A write in between would be lost. */
const ADD = "redis.call('SET', KEYS[1], (redis.call('GET', KEYS[1]) or 0) + 1)";

describe.each([
  ['with the flag', FLAG],
  ['without the flag', ''],
])('a script %s', (_, flag) => {
  it('is alone with its keys: neither scripts nor commands come in between', async () => {
    const [times, script] = [100, flag + ADD];
    await everyone((one, i) =>
      Promise.all(Array.from({ length: times }, () => (i === 0 ? one.incr('n') : one.eval(script, 1, 'n')))),
    );
    expect(Number(await direct.get('n'))).toBe(CLIENTS * times);
  });

  it('never waits for a script that waits for it', async () => {
    const script = `${flag}for _, key in ipairs(KEYS) do redis.call('INCR', key) end`;
    const orders = [
      ['a', 'b', 'c'],
      ['c', 'b', 'a'],
      ['b', 'a', 'a'],
    ];
    await everyone((one, i) =>
      Promise.all(Array.from({ length: 100 }, () => one.eval(script, 3, ...(orders[i % 3] ?? [])))),
    );
    expect(Number(await direct.get('a'))).toBe(CLIENTS * 100 + 200);
  });
});

describe('while a script runs', () => {
  /** Runs until the test, past all locks, has written its last key. */
  const WAIT = "redis.call('SET', KEYS[1], 'runs') while not redis.call('GET', KEYS[2]) do end return 'done'";

  async function during(flag: string, act: (order: string[]) => Promise<unknown>): Promise<string[]> {
    const order: string[] = [];
    const running = client(0).eval(flag + WAIT, 2, 'key', 'end');
    const noted = running.then(() => order.push('the script'));
    await expect.poll(() => direct.get('key')).toBe('runs');
    await act(order);
    await direct.set('end', 1);
    await noted;
    return order;
  }
  const note = (order: string[], name: string, reply: Promise<unknown>) => reply.then(() => order.push(name));

  it('with the flag, scripts on other keys go on, and scripts on its keys wait', async () => {
    const waiting: Promise<unknown>[] = [];
    const order = await during(FLAG, async (noted) => {
      waiting.push(note(noted, 'script', client(1).eval(FLAG + ADD, 1, 'end')));
      waiting.push(note(noted, 'command', client(2).get('key')));
      await note(noted, 'other script', client(3).eval(FLAG + ADD, 1, 'other'));
      await note(noted, 'other command', client(4).incr('third'));
      waiting.push(note(noted, 'script without keys', client(5).eval('return 1', 0)));
    });
    await Promise.all(waiting);
    expect(order.slice(0, 3)).toEqual(['other script', 'other command', 'the script']);
    expect(order.slice(3).sort()).toEqual(['command', 'script', 'script without keys']);
  });

  it('without the flag, every client that uses a key waits', async () => {
    const waiting: Promise<unknown>[] = [];
    const order = await during('', async (noted) => {
      waiting.push(note(noted, 'other key', client(1).eval(FLAG + ADD, 1, 'other')));
      waiting.push(note(noted, 'set', client(2).set('third', 1)));
    });
    await Promise.all(waiting);
    expect(order[0]).toBe('the script');
    expect(order).toHaveLength(3);
  });
});
