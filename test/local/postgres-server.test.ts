// Finding, installing, starting and ending a real PostgreSQL.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { StackError } from '../../local/ports.ts';
import { findOrInstallPostgres, startPostgresServer } from '../../local/postgres-server.ts';

const say = () => {};

async function ask(url: string, query: string): Promise<unknown> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    return Object.values((await client.query(query)).rows[0])[0];
  } finally {
    await client.end();
  }
}

describe('a PostgreSQL server', () => {
  it('answers once it is started, runs transactions side by side, and leaves nothing behind', async () => {
    const server = await startPostgresServer({ say });
    const dir = String(await ask(server.url, 'show data_directory'));
    const [one, other] = [server.url, server.url].map((url) => new pg.Client({ connectionString: url }));
    await one?.connect();
    await other?.connect();
    for (const client of [one, other]) await client?.query('begin');
    const counted = await ask(
      server.url,
      `select count(*)::int from pg_stat_activity where state = 'idle in transaction'`,
    );
    expect(counted).toBe(2);
    for (const client of [one, other]) await client?.end();
    await server.stop();
    await server.stop();
    await expect(ask(server.url, 'select 1')).rejects.toThrow();
    expect(existsSync(dir)).toBe(false);
  });

  it('does not outlive a parent that is killed', async () => {
    const module = new URL('../../local/postgres-server.ts', import.meta.url).href;
    const script = `const { startPostgresServer } = await import('${module}');
      const server = await startPostgresServer({ say: () => {} });
      process.stdout.write(server.url + '\\n');
      setInterval(() => {}, 1e6);`;
    const parent = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = await once(parent.stdout, 'data');
    const url = String(line).trim();
    const dir = String(await ask(url, 'show data_directory'));
    parent.kill('SIGKILL');
    const isUp = () =>
      ask(url, 'select 1').then(
        () => true,
        () => false,
      );
    await expect.poll(isUp).toBe(false);
    await expect.poll(() => existsSync(dir)).toBe(false);
  });
});

describe('the search for PostgreSQL', () => {
  let root: string;
  beforeAll(() => {
    root = mkdtempSync(join(tmpdir(), 'weir-fake-path-'));
  });
  afterAll(() => rmSync(root, { recursive: true, force: true }));

  /** A folder of versions, and a PATH with only the given shell scripts. */
  function fake(name: string, versions: readonly string[], programs: Record<string, string> = {}) {
    const folder = join(root, name);
    const put = (path: string, body: string) => {
      mkdirSync(join(path, '..'), { recursive: true });
      writeFileSync(path, `#!/bin/sh\n${body}\n`);
      chmodSync(path, 0o755);
    };
    mkdirSync(folder);
    for (const version of versions) put(join(folder, version, 'bin', 'postgres'), '');
    const path = join(folder, 'path');
    for (const [program, body] of Object.entries(programs)) put(join(path, program), body);
    const lines: string[] = [];
    const machine = {
      say: (line: string) => void lines.push(line),
      env: { PATH: path },
      platform: 'linux' as const,
      uid: 0,
    };
    return { folder, lines, find: () => findOrInstallPostgres(machine, folder) };
  }

  it('takes the newest version installed outside the PATH', async () => {
    const { find, folder, lines } = fake('versions', ['9', '15', '17', 'common']);
    expect(await find()).toBe(join(folder, '17', 'bin', 'postgres'));
    expect(lines).toEqual([]);
  });

  it('takes the postgres on the PATH if no other version is installed', async () => {
    const { find, folder } = fake('path', [], { postgres: '' });
    expect(await find()).toBe(join(folder, 'path', 'postgres'));
  });

  it('installs PostgreSQL if that needs no password, and says so once', async () => {
    const versions = join(root, 'none', '16', 'bin');
    const install = `[ "$*" = "install -y -q -o DPkg::Lock::Timeout=120 --no-install-recommends postgresql" ] || exit 1
      /bin/mkdir -p ${versions} && /bin/cp /bin/true ${versions}/postgres`;
    const { find, lines } = fake('none', [], { 'apt-get': install });
    expect(await find()).toBe(join(versions, 'postgres'));
    expect(lines).toEqual(['PostgreSQL is not installed: installing it with apt-get (takes some seconds)']);
  });

  it('says what to install if it cannot install anything', async () => {
    const { find } = fake('nothing', []);
    await expect(find()).rejects.toThrow(StackError);
    await expect(find()).rejects.toThrow(/^PostgreSQL is not installed: install it \("apt-get install/);
  });
});
