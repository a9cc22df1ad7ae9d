// The local Postgres: its folder and its data, its port, and migrations over TCP.
import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate } from 'drizzle-orm/node-postgres/migrator';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest';
import { freePort, LOOPBACK, StackError } from '../../local/ports.ts';
import { describePostgres, type LocalPostgres, startPostgres } from '../../local/postgres.ts';
import { createSharedParts } from '../shared/parts.ts';

const scratch = mkdtempSync(join(tmpdir(), 'weir-postgres-'));
const open: { end(): unknown }[] = [];
const dataDir = join(scratch, 'nested', 'data');
/** Each start takes seconds, so the tests share this one, and restart it only where that is the subject. */
let postgres: LocalPostgres;
const start = async () => startPostgres({ dataDir, port: await freePort() });

beforeAll(async () => {
  cpSync(await createSharedParts(inject('sharedParts')).pgliteFolder(), dataDir, { recursive: true });
});
afterEach(async () => {
  for (const client of open.splice(0)) await client.end();
});
afterAll(async () => {
  await postgres?.stop();
  rmSync(scratch, { recursive: true });
});

async function connectClient(url = postgres.url): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  open.push(client);
  return client;
}

async function countOf(client: pg.Client, table: string): Promise<number> {
  const { rows } = await client.query(`select count(*)::int as count from ${table}`);
  return rows[0].count;
}

describe('a process that is killed', () => {
  it('leaves the committed rows, and a lock that the next process takes over', async () => {
    const port = await freePort();
    const child = spawnPostgres(port);
    await child.ready;
    const writer = await connectClient(`postgres://postgres@${LOOPBACK}:${port}/postgres`);
    await writer.query('create table survivors (n int)');
    await writer.query('insert into survivors select generate_series(1, 200)');
    await expect(start()).rejects.toThrow(`is in use by process ${child.pid}`);
    await writer.query('begin');
    await writer.query('insert into survivors values (201)');
    await child.kill();
    expect(existsSync(`${dataDir}.lock`)).toBe(true);

    postgres = await start();
    expect(await countOf(await connectClient(), 'survivors')).toBe(200);
  });
});

describe('a drizzle migration', () => {
  it('is applied over TCP only once', async () => {
    const folder = join(scratch, 'drizzle');
    mkdirSync(join(folder, 'meta'), { recursive: true });
    writeFileSync(join(folder, '0000_first.sql'), MIGRATION);
    const entry = { idx: 0, version: '7', when: 1_700_000_000_000, tag: '0000_first', breakpoints: true };
    const journal = { version: '7', dialect: 'postgresql', entries: [entry] };
    writeFileSync(join(folder, 'meta/_journal.json'), JSON.stringify(journal));
    const client = await connectClient();
    await migrate(drizzle(client), { migrationsFolder: folder });
    await migrate(drizzle(client), { migrationsFolder: folder });
    expect((await client.query('select id, mode from rules_demo')).rows).toEqual([{ id: 1, mode: 'shadow' }]);
  });
});

describe('the local stack', () => {
  it('says in one line that the port is taken', async () => {
    await expect(startPostgres({ port: postgres.port })).rejects.toThrow(
      new StackError(`port ${postgres.port} (Postgres) is taken`),
    );
  });

  it('describes a Postgres by its URL without the password', async () => {
    const { name, version } = await describePostgres(postgres.url);
    expect(name).toBe(`${LOOPBACK}:${postgres.port}/postgres`);
    expect(version).toMatch(/^\d+/);
  });

  it('says in one line that no Postgres answers, without the password', async () => {
    const port = await freePort();
    const url = `postgres://user:secret@${LOOPBACK}:${port}/db`;
    const failure = await describePostgres(url).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(StackError);
    expect((failure as Error).message).toContain(`cannot use Postgres at ${LOOPBACK}:${port}/db`);
    expect((failure as Error).message).not.toContain('secret');
    await expect(describePostgres('mysql://x')).rejects.toThrow(StackError);
  });
});

describe('a restart', () => {
  it('keeps the data, in a folder that only one process may use at a time', async () => {
    const client = await connectClient();
    await client.query('create table kept (n int)');
    await client.query('insert into kept select generate_series(1, 500)');
    await expect(start()).rejects.toThrow(
      `${dataDir} is in use by process ${process.pid}; if that is not Weir, delete ${dataDir}.lock`,
    );
    await client.query('begin');
    await client.query('insert into kept values (501)');
    await postgres.stop();
    expect(existsSync(`${dataDir}.lock`)).toBe(false);

    // A lock whose process id now belongs to another program, as when a container restarts and uses the same ids again.
    // Only Linux can tell other ids; elsewhere the test uses its own.
    const pid = existsSync('/proc/self/stat') ? process.ppid : process.pid;
    writeFileSync(`${dataDir}.lock`, `${pid} 1\n`);
    postgres = await start();
    expect(await countOf(await connectClient(), 'kept')).toBe(500);
  });
});

function spawnPostgres(port: number) {
  const module = new URL('../../local/postgres.ts', import.meta.url).href;
  const options = JSON.stringify({ dataDir, port });
  const script = `import { startPostgres } from ${JSON.stringify(module)};
    await startPostgres(${options}); process.stdout.write('up');`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = new Promise((resolve) => child.once('exit', resolve));
  return {
    pid: child.pid,
    ready: new Promise((resolve) => child.stdout.once('data', resolve)),
    kill() {
      child.kill('SIGKILL');
      return exited;
    },
  };
}

const MIGRATION = `CREATE TYPE "mode_demo" AS ENUM('enforce', 'shadow');
--> statement-breakpoint
CREATE TABLE "rules_demo" ("id" serial PRIMARY KEY, "mode" "mode_demo" NOT NULL);
--> statement-breakpoint
INSERT INTO "rules_demo" ("mode") VALUES ('shadow');`;
