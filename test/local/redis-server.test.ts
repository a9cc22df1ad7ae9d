// Finding, installing, starting and ending a real redis-server.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findOrInstallChromium } from '../../local/chromium.ts';
import { findOrInstallAll } from '../../local/packages.ts';
import { freePort, listen, StackError } from '../../local/ports.ts';
import { findOrInstallPrometheus } from '../../local/prometheus.ts';
import { findOrInstallRedis, startRedisServer } from '../../local/redis-server.ts';
import { eventually } from './upstash-gateway-harness.ts';

async function ask(url: string, ...command: [string, ...string[]]): Promise<unknown> {
  const redis = new Redis(url, { lazyConnect: true, retryStrategy: () => null });
  redis.on('error', () => {});
  try {
    await redis.connect();
    return await redis.call(...command);
  } finally {
    redis.disconnect();
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe('starting a redis-server', () => {
  test('gives a server that answers on a free port at once and keeps nothing on disk', async () => {
    const redis = await startRedisServer({ port: 0, name: 'one' });
    expect(redis.url).toBe(`redis://127.0.0.1:${redis.port}`);
    expect(await ask(redis.url, 'PING')).toBe('PONG');
    expect(await ask(redis.url, 'CONFIG', 'GET', 'save')).toEqual(['save', '']);
    expect(await ask(redis.url, 'CONFIG', 'GET', 'appendonly')).toEqual(['appendonly', 'no']);
    const [, dir] = (await ask(redis.url, 'CONFIG', 'GET', 'dir')) as [string, string];
    expect(existsSync(dir)).toBe(true);
    await redis.stop();
    expect(existsSync(dir)).toBe(false);
    expect(isAlive(redis.pid)).toBe(false);
  });

  test('works several times at once, on different ports', async () => {
    const started = await Promise.all([1, 2, 3, 4].map((n) => startRedisServer({ port: 0, name: `n${n}` })));
    expect(new Set(started.map(({ port }) => port)).size).toBe(4);
    await Promise.all(started.map((redis) => redis.stop()));
  });

  test('after a stop gives an empty server on the same port', async () => {
    const port = await freePort();
    const first = await startRedisServer({ port, name: 'again' });
    await ask(first.url, 'SET', 'key', 'value');
    await first.stop();
    const second = await startRedisServer({ port, name: 'again' });
    expect(await ask(second.url, 'GET', 'key')).toBeNull();
    await second.stop();
  });

  test('passes extra arguments on', async () => {
    const redis = await startRedisServer({ port: 0, name: 'extra', extraArgs: ['--maxmemory', '5mb'] });
    expect(await ask(redis.url, 'CONFIG', 'GET', 'maxmemory')).toEqual(['maxmemory', '5242880']);
    await redis.stop();
  });

  test('works with a password', async () => {
    const redis = await startRedisServer({ port: 0, name: 'locked', extraArgs: ['--requirepass', 'pw'] });
    expect(await ask(redis.url.replace('//', '//:pw@'), 'PING')).toBe('PONG');
    await redis.stop();
  });

  test('says in one line that the port is taken', async () => {
    const server = createServer();
    const port = await listen(server, 0, 'occupant');
    const start = startRedisServer({ port, name: 'late' });
    await expect(start).rejects.toThrow(new StackError(`port ${port} (Redis late) is taken`));
    server.close();
  });

  test('repeats the last words of a redis-server that dies', async () => {
    const start = startRedisServer({ port: 0, name: 'bad', extraArgs: ['--no-such-option', '1'] });
    await expect(start).rejects.toThrow(/^Redis bad \(port \d+\) died; its last words: .*argument/i);
    await expect(start).rejects.toBeInstanceOf(StackError);
  });

  test('says that the binary does not exist', async () => {
    const start = startRedisServer({ port: 0, name: 'none', binary: '/no/such/redis-server' });
    await expect(start).rejects.toThrow(/died; its last words: .*ENOENT/);
  });
});

describe('a redis-server', () => {
  test('stops even if it is frozen', async () => {
    const redis = await startRedisServer({ port: 0, name: 'frozen' });
    redis.freeze();
    await redis.stop();
    expect(isAlive(redis.pid)).toBe(false);
  });

  test('can be stopped after it has died, even twice', async () => {
    const redis = await startRedisServer({ port: 0, name: 'dead' });
    process.kill(redis.pid, 'SIGKILL');
    await redis.stop();
    await redis.stop();
  });

  test.each(['SIGKILL', 'SIGTERM'] as const)('does not outlive a parent that gets %s', async (signal) => {
    const { parent, url } = await startInAnotherProcess(
      'await new Promise(() => setInterval(() => {}, 1e6));',
    );
    expect(await ask(url, 'PING')).toBe('PONG');
    parent.kill(signal);
    await eventually(() => expect(ask(url, 'PING')).rejects.toThrow());
  });

  test('does not outlive a parent that exits without stopping it', async () => {
    const { url } = await startInAnotherProcess('process.exit(3);');
    await eventually(() => expect(ask(url, 'PING')).rejects.toThrow());
  });
});

async function startInAnotherProcess(then: string) {
  const module = new URL('../../local/redis-server.ts', import.meta.url).href;
  const script = `const { startRedisServer } = await import('${module}');
    const redis = await startRedisServer({ port: 0, name: 'child' });
    process.stdout.write(redis.url + '\\n');
    ${then}`;
  const parent = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = await once(parent.stdout, 'data');
  return { parent, url: String(line).trim() };
}

describe('the search for a redis-server', () => {
  let root: string;
  beforeAll(() => {
    root = mkdtempSync(join(tmpdir(), 'weir-fake-path-'));
  });
  afterAll(() => rmSync(root, { recursive: true, force: true }));

  /** A PATH with only the given shell scripts. `$HERE` is its folder, and every call is noted. */
  function fakePath(name: string, programs: Record<string, string>) {
    const here = join(root, name);
    mkdirSync(here);
    for (const [program, body] of Object.entries(programs)) {
      const note = `echo "${program} $* frontend=$DEBIAN_FRONTEND runlevel=$RUNLEVEL" >> ${here}/calls`;
      writeFileSync(join(here, program), `#!/bin/sh\nHERE=${here}\n${note}\n${body}\n`);
      chmodSync(join(here, program), 0o755);
    }
    const calls = () =>
      existsSync(join(here, 'calls')) ? readFileSync(join(here, 'calls'), 'utf8').trim().split('\n') : [];
    const lines: string[] = [];
    const say = (line: string) => void lines.push(line);
    return { here, calls, lines, say, env: { PATH: here }, platform: 'linux' as NodeJS.Platform };
  }
  const PUT_REDIS = '/bin/cp /bin/true $HERE/redis-server';
  const INSTALL_ARGS = 'install -y -q -o DPkg::Lock::Timeout=120 --no-install-recommends redis-server';

  test('takes the redis-server on the PATH without a word', async () => {
    const fake = fakePath('present', { 'redis-server': '', 'apt-get': 'exit 1' });
    expect(await findOrInstallRedis({ ...fake, uid: 0 })).toBe(join(fake.here, 'redis-server'));
    expect(fake.lines).toEqual([]);
    expect(fake.calls()).toEqual([]);
  });

  test('as root installs one with apt-get, says so once, and starts no service', async () => {
    const fake = fakePath('root', { 'apt-get': PUT_REDIS });
    expect(await findOrInstallRedis({ ...fake, uid: 0 })).toBe(join(fake.here, 'redis-server'));
    expect(fake.lines).toEqual([
      'redis-server is not installed: installing it with apt-get (takes some seconds)',
    ]);
    expect(fake.calls()).toEqual([`apt-get ${INSTALL_ARGS} frontend=noninteractive runlevel=1`]);
  });

  test('refreshes the package lists and tries again when the package is not known', async () => {
    const known = 'case "$1" in update) /bin/touch $HERE/lists;; *) [ -e $HERE/lists ] || exit 100;';
    const fake = fakePath('stale', { 'apt-get': `${known} ${PUT_REDIS};; esac` });
    expect(await findOrInstallRedis({ ...fake, uid: 0 })).toBe(join(fake.here, 'redis-server'));
    expect(fake.calls().map((call) => call.split(' ')[1])).toEqual(['install', 'update', 'install']);
  });

  test('uses sudo when it asks for no password', async () => {
    const fake = fakePath('sudo', { 'apt-get': PUT_REDIS, sudo: 'shift; exec "$@"', true: '' });
    expect(await findOrInstallRedis({ ...fake, uid: 1000 })).toBe(join(fake.here, 'redis-server'));
    expect(fake.calls()).toContain(`apt-get ${INSTALL_ARGS} frontend=noninteractive runlevel=1`);
  });

  test('uses brew on a Mac', async () => {
    const fake = fakePath('mac', { brew: PUT_REDIS, 'apt-get': 'exit 1' });
    expect(await findOrInstallRedis({ ...fake, platform: 'darwin', uid: 501 })).toContain('redis-server');
    expect(fake.calls().map((call) => call.split(' frontend')[0])).toEqual(['brew install redis']);
  });

  test('says what to install when sudo wants a password, or no installer is there', async () => {
    const hint =
      'redis-server is not installed: install Redis 7 ("apt-get install redis-server" or "brew install redis") and run this again';
    const locked = fakePath('locked', { 'apt-get': PUT_REDIS, sudo: 'exit 1' });
    await expect(findOrInstallRedis({ ...locked, uid: 1000 })).rejects.toThrow(new StackError(hint));
    const bare = fakePath('bare', {});
    await expect(findOrInstallRedis({ ...bare, uid: 0 })).rejects.toThrow(new StackError(hint));
    expect([...locked.lines, ...bare.lines]).toEqual([]);
  });

  test('names all programs that are missing, not only the first', async () => {
    const fake = fakePath('several', { promtool: '', prometheus: '' });
    const found = findOrInstallAll({ ...fake, uid: 0 }, [
      findOrInstallRedis,
      findOrInstallPrometheus,
      findOrInstallChromium,
    ]);
    const missing =
      /^redis-server is not installed: .* run this again\nChromium is not installed: .* run this again$/;
    await expect(found).rejects.toThrow(missing);
  });

  test('says why the installer failed', async () => {
    const fake = fakePath('offline', { 'apt-get': 'echo "E: no network" >&2; exit 100' });
    const found = findOrInstallRedis({ ...fake, uid: 0 });
    await expect(found).rejects.toThrow(/^apt-get could not install redis-server \(E: no network\): install/);
    await expect(found).rejects.toBeInstanceOf(StackError);
  });
});
