// Applies Weir's migrations (drizzle/) to a Postgres, and after them a team's own (rules/). Each folder has its own
// table of applied files, so both may use the same numbers.
import pg from 'pg';
import { type Migration, readOwnMigrations, readRuleMigrations } from './migration-files.ts';
import { StackError } from './ports.ts';

const folderOf = (name: string) => new URL(`../${name}`, import.meta.url).pathname;

/** Migrations before this one name no schema, or `public`. */
const OWN_SCHEMA = '0018_own-schema';

export interface MigrationFolders {
  readonly own?: string | undefined;
  readonly rules?: string | undefined;
}

export interface Applied {
  /** The applied files as `drizzle/0001_name`, in the order in which they were applied. */
  readonly applied: readonly string[];
  /** Files of rules/ whose content has changed since they were applied. */
  readonly edited: readonly string[];
}

export async function applyMigrations(databaseUrl: string, folders: MigrationFolders = {}): Promise<Applied> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await prepare(client);
    const own = await applyOwn(client, readOwnMigrations(folders.own ?? folderOf('drizzle')));
    const rules = await applyRules(client, readRuleMigrations(folders.rules ?? folderOf('rules')));
    return { applied: [...own, ...rules.applied], edited: rules.edited };
  } finally {
    await client.end();
  }
}

/** `weir.migrations` has the same form as drizzle-kit's own table. */
async function prepare(client: pg.Client): Promise<void> {
  await client.query(`
    create schema if not exists weir;
    create table if not exists weir.migrations (id serial primary key, hash text not null, created_at bigint);
    create table if not exists weir.rule_migrations (
      name text primary key, hash text not null, applied_at timestamptz not null default now())`);
}

async function applyOwn(client: pg.Client, migrations: readonly Migration[]): Promise<string[]> {
  await adopt(client, migrations);
  const { rows } = await client.query<{ at: string }>('select created_at::text as at from weir.migrations');
  const known = new Set(rows.map(({ at }) => Number(at)));
  const pending = migrations.filter(({ createdAtMs }) => !known.has(createdAtMs));
  // In an empty database nothing has to move: the old migrations create their tables in `weir` at once.
  const old = known.size > 0 ? 0 : migrations.findIndex(({ name }) => name === OWN_SCHEMA);
  if (pending.length > 0) await refuseBrokenIndexes(client);
  await inTransaction(client, async () => {
    for (const [index, migration] of pending.entries()) {
      const isOld = index < old;
      await client.query(`set local search_path = ${isOld ? 'weir' : 'default'}`);
      const text = takeOverIndexes(migration.text);
      await run(client, 'drizzle', {
        ...migration,
        text: isOld ? text.replaceAll('"public".', '"weir".') : text,
      });
      await client.query('insert into weir.migrations (hash, created_at) values ($1, $2)', [
        migration.hash,
        migration.createdAtMs,
      ]);
    }
  });
  return pending.map(({ name }) => `drizzle/${name}`);
}

/** For a large table, a person may have built an index beforehand with CONCURRENTLY, which no transaction can do. */
const takeOverIndexes = (text: string) => text.replaceAll('CREATE INDEX "', 'CREATE INDEX IF NOT EXISTS "');

/** If CONCURRENTLY fails, it leaves an index of that name, and Postgres does not read from it. */
async function refuseBrokenIndexes(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `select relname as name from pg_index join pg_class on pg_class.oid = indexrelid
     where relnamespace = 'weir'::regnamespace and not indisvalid order by 1`,
  );
  if (rows.length === 0) return;
  const names = rows.map(({ name }) => `weir.${name}`).join(', ');
  throw new StackError(`indexes were not built to the end: ${names}. Drop them, and build them again`);
}

/** Before Weir had a schema, drizzle-kit's default table recorded its migrations, perhaps among others. */
async function adopt(client: pg.Client, migrations: readonly Migration[]): Promise<void> {
  const { hashes } = await readFormerTable(client);
  const taken = migrations.filter(({ hash }) => hashes.has(hash));
  await client.query(
    `insert into weir.migrations (hash, created_at)
     select hash, at from unnest($1::text[], $2::bigint[]) with ordinality as former (hash, at, place)
     where not exists (select from weir.migrations) order by place`,
    [taken.map(({ hash }) => hash), taken.map(({ createdAtMs }) => createdAtMs)],
  );
}

async function readFormerTable(client: pg.Client): Promise<{ hashes: ReadonlySet<string> }> {
  const { rows } = await client.query(`select to_regclass('drizzle.__drizzle_migrations') as found`);
  if (rows[0]?.found === null) return { hashes: new Set() };
  const former = await client.query<{ hash: string }>('select hash from drizzle.__drizzle_migrations');
  return { hashes: new Set(former.rows.map(({ hash }) => hash)) };
}

async function applyRules(client: pg.Client, migrations: readonly Migration[]): Promise<Applied> {
  const { rows } = await client.query<{ name: string; hash: string }>(
    'select name, hash from weir.rule_migrations',
  );
  const known = new Map(rows.map(({ name, hash }) => [name, hash]));
  const { hashes: former } = await readFormerTable(client);
  const fresh = migrations.filter(({ name }) => !known.has(name));
  await inTransaction(client, async () => {
    // The team's SQL may name the schema or leave it out.
    await client.query('set local search_path = weir, public');
    for (const migration of fresh) {
      // This file may have been applied from drizzle/, before there was a folder for rules.
      if (!former.has(migration.hash)) await run(client, 'rules', migration);
      await client.query('insert into weir.rule_migrations (name, hash) values ($1, $2)', [
        migration.name,
        migration.hash,
      ]);
    }
  });
  return {
    applied: fresh.filter(({ hash }) => !former.has(hash)).map(({ name }) => `rules/${name}`),
    edited: migrations
      .filter(({ name, hash }) => (known.get(name) ?? hash) !== hash)
      .map(({ name }) => `rules/${name}`),
  };
}

async function run(client: pg.Client, folder: string, { name, text }: Migration): Promise<void> {
  await client.query(text).catch((error: Error) => {
    throw new StackError(`${folder}/${name}.sql: ${error.message}. Nothing of ${folder}/ was applied`);
  });
}

async function inTransaction(client: pg.Client, work: () => Promise<void>): Promise<void> {
  await client.query('begin');
  try {
    await work();
    await client.query('commit');
  } catch (error) {
    await client.query('rollback');
    throw error;
  }
}
