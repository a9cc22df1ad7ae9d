// The same script on the Lua of Redis and on that of Upstash: the same replies and stored values, lifetimes included,
// for more than 100,000 random calls.
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CLOCK } from '../../local/clocked-script.ts';
import { type LuaEngine, type ScriptServer, startScriptServer } from '../../local/script-server.ts';
import announce from '../../lua/announce.lua';
import { scriptFor } from '../redis/lua-counters.ts';
import { history, type Sent, sentFor } from './random-calls.ts';

const LANES = 4;
/** Histories have 30 calls on average. */
const HISTORIES_PER_LANE = 1_000;
const MAX_MINUTES = 10;

/**
 * Redis expires keys by its own clock, and the histories have another one. So keys live this much longer than they
 * should.
 */
const LATER_MS = 10 ** 12;
const LIVING_LONGER = [
  'local timed = redis',
  'local redis = { pcall = timed.pcall }',
  'redis.call = function(name, ...)',
  "if name == 'SET' then local key, value, option, at = ...",
  `if option == 'PXAT' then return timed.call(name, key, value, option, tonumber(at) + ${LATER_MS}) end end`,
  'return timed.call(name, ...) end',
].join(' ');

interface Side {
  readonly server: ScriptServer;
  readonly sha: string;
  /** One connection for each lane. */
  readonly clients: readonly Redis[];
}

const sides: Side[] = [];
beforeAll(async () => {
  for (const lua of ['redis', 'gopher'] as const) sides.push(await startSide(lua));
});
afterAll(async () => {
  for (const { clients, server } of sides) {
    for (const client of clients) client.disconnect();
    await server.stop();
  }
});

async function startSide(lua: LuaEngine): Promise<Side> {
  const server = await startScriptServer({ port: 0, name: lua, lua });
  const clients = Array.from({ length: LANES }, () => new Redis(server.port));
  const script = await scriptFor(lua, `${CLOCK} ${LIVING_LONGER}`);
  const sha = (await clients[0]?.script('LOAD', script)) as string;
  return { server, sha, clients };
}

/**
 * Sends all calls at once. Returns each reply, the values of the keys after each script call, and in the end their
 * TTLs.
 */
async function play({ clients, sha }: Side, lane: number, sent: readonly Sent[]): Promise<string[]> {
  const pipeline = clients[lane]?.pipeline();
  for (const one of sent) {
    if ('command' in one) pipeline?.call(...(one.command as [string, ...string[]]));
    else {
      const { keys, args } = one.script;
      pipeline?.evalsha(sha, keys.length, ...keys, ...args);
      if (keys.length > 0) pipeline?.mgetBuffer(keys);
    }
  }
  const keys = new Set(sent.flatMap((one) => ('script' in one ? one.script.keys : [])));
  for (const key of keys) pipeline?.pexpiretime(key);
  return ((await pipeline?.exec()) ?? []).map(([error, reply]) =>
    error ? told(error.message) : text(reply),
  );
}

const text = (reply: unknown): string =>
  JSON.stringify(reply, (_, value) =>
    value?.type === 'Buffer' ? Buffer.from(value.data).toString('latin1') : value,
  );

/** An error of Lua itself has another text on each side. Only that there is an error must be the same. */
const told = (message: string): string => (message.includes('user_script') ? FAILED : message);
const FAILED = 'the script fails';

let subjects = 0;
const tally = { calls: 0, answered: 0, refused: 0, failed: 0 };

function count(sent: readonly Sent[], replies: readonly string[]): void {
  const before = tally.calls;
  tally.calls += sent.filter((one) => 'script' in one).length;
  tally.refused += replies.filter((reply) => reply.startsWith('WEIR_BAD_ARGUMENT')).length;
  tally.failed += replies.filter((reply) => reply === FAILED).length;
  tally.answered = tally.calls - tally.refused - tally.failed;
  if (Math.floor(before / 20_000) < Math.floor(tally.calls / 20_000)) console.log(summary());
}

const summary = () =>
  `${tally.calls} calls, 0 different (${tally.answered} answered, ${tally.refused} refused, ${tally.failed} errors of Lua)`;

describe('the script on gopher-lua', () => {
  it(
    'answers and stores the same as on Redis, after any history',
    async () => {
      const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31);
      console.log(`seed ${seed}`);
      const lane = (i: number) =>
        fc.assert(
          fc.asyncProperty(history, async (chosen) => {
            subjects += 1;
            const sent = [...sentFor(chosen, `{${subjects}}`)];
            const [redis = [], gopher] = await Promise.all(sides.map((side) => play(side, i, sent)));
            if (redis.join() !== gopher?.join()) expect(gopher).toEqual(redis);
            count(sent, redis);
          }),
          { seed: seed + i, numRuns: HISTORIES_PER_LANE },
        );
      await Promise.all(Array.from({ length: LANES }, (_, i) => lane(i)));
      console.log(summary());
      expect(tally.calls).toBeGreaterThanOrEqual(100_000);
    },
    MAX_MINUTES * 60_000,
  );

  it('announces the same as on Redis, over any earlier text', async () => {
    const number = fc.oneof(fc.nat({ max: 120 }), fc.nat());
    const standing = fc.oneof(
      number.map((sequence) => `${sequence}.a.b`),
      fc.constantFrom('', '.', '1', '1.', '9e9.x', ' 1.x', '00012.x', '0x10.x', 'what is this'),
    );
    await fc.assert(
      fc.asyncProperty(fc.option(standing), number, async (before, sequence) => {
        const key = `announcement:${++subjects}`;
        const [redis, gopher] = await Promise.all(
          sides.map(async ({ clients: [client], server }) => {
            const script = server.lua === 'gopher' ? announce : announce.replace(/^.*/, '');
            const pipeline = client?.pipeline();
            if (before !== null) pipeline?.set(key, before);
            pipeline?.eval(script, 1, key, sequence, `${sequence}.new`, 3_600_000).get(key);
            return pipeline?.exec();
          }),
        );
        expect(gopher).toEqual(redis);
      }),
      { numRuns: 1_000 },
    );
  });
});
