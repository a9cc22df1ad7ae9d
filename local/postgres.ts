// The local Postgres: PGlite, in memory or in a folder, on a TCP port for psql, `pg` and drizzle-kit. Or an existing
// Postgres, by its URL.
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import pg from 'pg';
import { assertPortFree, LOOPBACK, StackError } from './ports.ts';
import { startPgliteServer } from './postgres/pglite-server.ts';

const LABEL = 'Postgres';
const IDLE_IN_TRANSACTION_MS = 60_000;
const CONNECT_TIMEOUT_MS = 5_000;

export interface PostgresOptions {
  /** Empties the folder first. */
  fresh?: boolean;
  /** Where the data are. Without it, they are in memory, and lost on stop. */
  dataDir?: string | undefined;
  port: number;
  /** How long an idle transaction may hold up other clients before its client is cut off. */
  idleInTransactionMs?: number;
}

export interface LocalPostgres {
  url: string;
  port: number;
  stop(): Promise<void>;
}

export async function startPostgres(options: PostgresOptions): Promise<LocalPostgres> {
  // Checked before the database starts, which takes seconds.
  await assertPortFree(options.port, LABEL);
  const unlock = options.dataDir === undefined ? () => {} : lockFolder(options.dataDir);
  try {
    // Only with the lock: without it, the data could belong to another run.
    if (options.fresh && options.dataDir) rmSync(options.dataDir, { recursive: true, force: true });
    return await open(options, unlock);
  } catch (error) {
    unlock();
    throw error;
  }
}

async function open(options: PostgresOptions, unlock: () => void): Promise<LocalPostgres> {
  const { dataDir } = options;
  const db = await PGlite.create({ ...(dataDir && { dataDir }) }).catch((error) => {
    throw new StackError(
      `the database in ${dataDir ?? 'memory'} cannot be opened (${reasonOf(error)}); --fresh starts an empty one`,
    );
  });
  const server = await startPgliteServer({
    db,
    port: options.port,
    label: LABEL,
    idleInTransactionMs: options.idleInTransactionMs ?? IDLE_IN_TRANSACTION_MS,
  }).catch(async (error) => {
    await db.close();
    throw error;
  });
  let stopping: Promise<void> | undefined;
  const stop = async () => {
    await server.stop();
    await db.close();
    unlock();
  };
  return {
    url: `postgres://postgres:postgres@${LOOPBACK}:${server.port}/postgres`,
    port: server.port,
    stop: () => (stopping ??= stop()),
  };
}

export interface ExistingPostgres {
  url: string;
  /** "host:port/database" for messages, without the password. */
  name: string;
  version: string;
}

/** Checks that a Postgres answers at `url`. If not, one line says so. */
export async function describePostgres(url: string): Promise<ExistingPostgres> {
  const name = nameOf(url);
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
  client.on('error', () => {});
  try {
    await client.connect();
    const { rows } = await client.query<{ server_version: string }>('show server_version');
    return { url, name, version: rows[0]?.server_version ?? 'unknown' };
  } catch (error) {
    throw new StackError(`cannot use Postgres at ${name}: ${reasonOf(error)}`);
  } finally {
    await client.end().catch(() => {});
  }
}

function nameOf(url: string): string {
  try {
    const { protocol, host, pathname } = new URL(url);
    if (/^postgres(ql)?:$/.test(protocol)) return `${host}${pathname}`;
  } catch {}
  throw new StackError('the URL of Postgres must look like postgres://user:password@host:5432/database');
}

function reasonOf(error: unknown): string {
  // If a name has two addresses and both refuse, the error is an AggregateError with an empty message.
  if (error instanceof AggregateError) return reasonOf(error.errors[0]);
  return error instanceof Error ? error.message : String(error);
}

const heldHere = new Set<string>();

/** Two processes on one folder would destroy it. This one takes over the lock of a dead process. */
function lockFolder(dataDir: string): () => void {
  const folder = resolve(dataDir);
  const path = `${folder}.lock`;
  mkdirSync(dirname(folder), { recursive: true });
  takeLock(path, folder);
  heldHere.add(path);
  return () => {
    if (heldHere.delete(path)) rmSync(path, { force: true });
  };
}

function takeLock(path: string, folder: string): void {
  const mine = `${process.pid} ${startOf(process.pid)}\n`;
  if (writeIfAbsent(path, mine)) return;
  const holder = readIfPresent(path);
  if (holder !== null && isAlive(holder, path)) throw inUse(path, folder, holder);
  if (holder !== null) moveStaleAside(path, folder, holder);
  if (!writeIfAbsent(path, mine)) throw inUse(path, folder, readIfPresent(path) ?? '');
}

/** Renames the lock, so that only one of two processes that find the same stale lock goes on. */
function moveStaleAside(path: string, folder: string, stale: string): void {
  const aside = `${path}.${process.pid}`;
  try {
    renameSync(path, aside);
  } catch {
    return;
  }
  const moved = readFileSync(aside, 'utf8');
  if (moved !== stale) linkSync(aside, path);
  rmSync(aside);
  if (moved !== stale) throw inUse(path, folder, moved);
}

function inUse(path: string, folder: string, holder: string): StackError {
  const pid = holder.split(' ')[0] || 'unknown';
  return new StackError(`${folder} is in use by process ${pid}; if that is not Weir, delete ${path}`);
}

function isAlive(holder: string, path: string): boolean {
  const [pidText = '', start = ''] = holder.trim().split(' ');
  const pid = Number(pidText);
  if (!Number.isInteger(pid) || pid <= 0 || !signalReaches(pid)) return false;
  // Systems reuse process ids, containers at every start. The start time tells two processes apart.
  if (start !== '' && startOf(pid) !== '') return start === startOf(pid);
  return pid !== process.pid || heldHere.has(path);
}

function signalReaches(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** When a process started, in ticks since boot. Empty if the system does not say. */
function startOf(pid: number): string {
  const stat = readIfPresent(`/proc/${pid}/stat`) ?? '';
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
}

function writeIfAbsent(path: string, text: string): boolean {
  try {
    writeFileSync(path, text, { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

function readIfPresent(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
