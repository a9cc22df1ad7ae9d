// Runs a real PostgreSQL from the distribution's packages. PGlite runs transactions one after the other, so it cannot
// show how they interact. The data are in a folder of their own, which is removed at the end.
import { execFile, spawn } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { findOrInstall, isExecutable, type Machine } from './packages.ts';
import { freePort, LOOPBACK, StackError } from './ports.ts';
import { followOutput } from './redis-process.ts';
import { startWatchdog } from './watchdog.ts';

const START_TIMEOUT_MS = 60_000;
/** Debian and Homebrew keep each version in a folder of its own, off the PATH. */
const FOLDERS = { linux: '/usr/lib/postgresql', darwin: '/opt/homebrew/opt' };
/** Nothing has to survive a crash, and nothing outlives the run. */
const SETTINGS = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  autovacuum: 'off',
  unix_socket_directories: '',
  listen_addresses: LOOPBACK,
  max_connections: '300',
  timezone: 'UTC',
};

export interface PostgresServer {
  /** The URL of its first database, for a superuser. */
  readonly url: string;
  readonly pid: number;
  stop(): Promise<void>;
}

/**
 * The path of `postgres`. Installs it where that asks no question, and says so in one line. `folder` has a folder for
 * each version.
 */
export function findOrInstallPostgres(machine: Machine, folder?: string): Promise<string> {
  const versions = folder ?? FOLDERS[(machine.platform ?? process.platform) as keyof typeof FOLDERS] ?? '';
  return findOrInstall(machine, {
    name: 'PostgreSQL',
    find: (binary) => newestIn(versions) ?? binary('postgres'),
    apt: ['postgresql'],
    brew: ['postgresql@17'],
    hint: 'install it ("apt-get install postgresql" or "brew install postgresql@17") and run this again',
  });
}

function newestIn(folder: string): string | undefined {
  const versionOf = (name: string) => Number(/^(?:postgresql@)?(\d+)$/.exec(name)?.[1] ?? 0);
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => versionOf(name) > 0) : [];
  const newestFirst = names.sort((a, b) => versionOf(b) - versionOf(a));
  return newestFirst.map((name) => join(folder, name, 'bin', 'postgres')).find(isExecutable);
}

export async function startPostgresServer(machine: Machine): Promise<PostgresServer> {
  const binary = await findOrInstallPostgres(machine);
  const identity = await unprivileged();
  const dir = mkdtempSync(join(tmpdir(), 'weir-postgres-'));
  if (identity) chownSync(dir, identity.uid, identity.gid);
  const removeDir = () => rmSync(dir, { recursive: true, force: true });
  const folder: Folder = { binary, dir, identity };
  try {
    await initialise(folder);
    for (let attempt = 1; ; attempt++) {
      const server = await launch(folder, await freePort());
      // Another program may take a free port before Postgres opens it.
      if (server !== 'port lost') return { ...server, stop: () => server.stop().finally(removeDir) };
      if (attempt === 5) throw new StackError('PostgreSQL found no free port');
    }
  } catch (error) {
    removeDir();
    throw error;
  }
}

interface Identity {
  readonly uid: number;
  readonly gid: number;
}

interface Folder {
  readonly binary: string;
  readonly dir: string;
  readonly identity: Identity | undefined;
}

/** Postgres refuses to run as root. Then it runs as the user of its package, or as nobody. */
async function unprivileged(): Promise<Identity | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const idOf = async (flag: string, user: string) =>
    Number((await promisify(execFile)('id', [flag, user])).stdout);
  for (const user of ['postgres', 'nobody']) {
    try {
      return { uid: await idOf('-u', user), gid: await idOf('-g', user) };
    } catch {
      // There is no such user here.
    }
  }
  throw new StackError('PostgreSQL does not run as root, and there is no user postgres or nobody');
}

async function initialise({ binary, dir, identity }: Folder): Promise<void> {
  const locale = ['--encoding=UTF8', '--locale=C'];
  const args = ['-D', dir, '-U', 'postgres', '--auth=trust', '--no-sync', ...locale];
  await promisify(execFile)(join(dirname(binary), 'initdb'), args, { cwd: dir, ...identity });
}

async function launch({ binary, dir, identity }: Folder, port: number) {
  const settings = Object.entries({ ...SETTINGS, port }).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ]);
  const child = spawn(binary, ['-D', dir, ...settings], {
    cwd: dir,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    ...identity,
  });
  const lastLine = followOutput(child);
  const ended = new Promise<void>((resolve) => {
    child.once('error', () => resolve());
    child.once('close', () => resolve());
  });
  const isAlive = () => child.pid !== undefined && child.exitCode === null && child.signalCode === null;
  // SIGQUIT ends Postgres at once, with its processes and shared memory. SIGKILL would leave those behind.
  const end = () => child.kill('SIGQUIT');
  const watchdog = startWatchdog('kill -QUIT "$1"; sleep 1; rm -rf "$2"', String(child.pid), dir);
  process.once('exit', end);
  void ended.then(() => {
    process.off('exit', end);
    watchdog.kill('SIGKILL');
  });
  const url = `postgres://postgres@${LOOPBACK}:${port}/postgres`;
  const stop = async () => {
    if (isAlive()) end();
    await ended;
  };
  const giveUpAt = Date.now() + START_TIMEOUT_MS;
  while (isAlive() && Date.now() < giveUpAt) {
    if (await answers(url, dir)) return { url, pid: child.pid as number, stop };
    await sleep(20);
  }
  await stop();
  if (/could not bind|could not create any TCP/.test(lastLine())) return 'port lost';
  throw new StackError(`PostgreSQL (port ${port}) did not start; its last words: ${lastLine()}`);
}

/** Compares the data folder, because another Postgres on the same port would answer, too. */
async function answers(url: string, dir: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  client.on('error', () => {});
  try {
    await client.connect();
    const { rows } = await client.query<{ data_directory: string }>('show data_directory');
    return rows[0]?.data_directory === dir;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}
