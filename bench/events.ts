// Asks for the violators of the last day in a table of a month: ten million rows of denials, three hundred thousand
// subjects.
import { PgDialect } from 'drizzle-orm/pg-core';
import pg from 'pg';
import { applyMigrations } from '../local/migrations.ts';
import { startPostgresServer } from '../local/postgres-server.ts';
import { type ViolatorKind, violatorsQuery } from '../src/telemetry/queries.ts';
import type { Bench } from './shared/bench.ts';
import { median } from './shared/rounds.ts';

export const measures = 'the top violators of a day among ten million rows of denials';

export const keys = ['rows', 'ms.ip', 'ms.rule', 'usesIndex.ip', 'usesIndex.rule'];

const ROWS = 10_000_000;
const DAYS = 30;
const DAY_MS = 86_400_000;
const RUNS = 5;
const KINDS: readonly ViolatorKind[] = ['ip', 'rule'];

export const run: Bench = async ({ say, scaled, parts }) => {
  await using cleanup = new AsyncDisposableStack();
  const url = parts.databaseUrl ?? (await startOwn(say, cleanup));
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  cleanup.defer(() => client.end());
  const rows = scaled(ROWS, 20_000);
  say(`writing ${rows} rows`);
  const nowMs = Math.floor(Date.now() / 60_000) * 60_000;
  const startedAtMs = performance.now();
  await withoutIndexes(client, () =>
    client.query(FILL, [rows, new Date(nowMs - DAYS * DAY_MS), (DAYS * DAY_MS) / 1_000 / rows]),
  );
  await client.query('vacuum analyze weir.denials');
  say(`written and indexed in ${((performance.now() - startedAtMs) / 1_000).toFixed(0)} s`);
  const found = new Map<ViolatorKind, Asked>();
  for (const kind of KINDS) found.set(kind, await ask(client, kind, { nowMs, runs: scaled(RUNS) }));
  const of = <T>(pick: (asked: Asked) => T) =>
    Object.fromEntries([...found].map(([kind, asked]) => [kind, pick(asked)]));
  return {
    tables: [
      {
        title: `Violators of the last day, of ${rows} rows in ${DAYS} days`,
        head: ['by', 'median, ms', 'indexed'],
        rows: [...found].map(([kind, { ms, usesIndex }]) => [kind, ms.toFixed(0), usesIndex ? 'yes' : 'no']),
        notes: [...found].flatMap(([kind, { plan }]) => [`by ${kind}:`, ...plan]),
      },
    ],
    json: {
      rows,
      ms: of(({ ms }) => ms),
      usesIndex: of(({ usesIndex }) => usesIndex),
      plan: of(({ plan }) => plan),
    },
  };
};

/**
 * Like real denials: ordered by time, half of them by address, and few for most subjects. No two rows of a minute have
 * the same key.
 */
const FILL = `
  insert into weir.denials (at, scope, rule_id, rule_name, subject, tenant_id, user_id, api_key_id, count)
  select date_trunc('minute', $2::timestamptz + make_interval(secs => n * $3::float8)),
    (array['ip', 'ip', 'user', 'apiKey'])[1 + n % 4], 'rule-' || n % 50, 'Rule ' || n % 50,
    'subject-' || (n::bigint * 7919) % 300000 || '-' || n % 4,
    'tenant-' || n % 100, case n % 4 when 2 then 'subject-' || (n::bigint * 7919) % 300000 || '-2' else '' end,
    case n % 4 when 3 then 'subject-' || (n::bigint * 7919) % 300000 || '-3' else '' end, 1 + n % 10
  from generate_series(1, $1::int) n`;

/** Inserting is several times faster without indexes. They are built afterwards, from all rows at once. */
async function withoutIndexes(client: pg.Client, fill: () => Promise<unknown>): Promise<void> {
  const { rows: keys } = await client.query<{ name: string; definition: string }>(
    `select quote_ident(conname) as name, pg_get_constraintdef(oid) as definition from pg_constraint
     where conrelid = 'weir.denials'::regclass and contype = 'p'`,
  );
  for (const { name } of keys) await client.query(`alter table weir.denials drop constraint ${name}`);
  const { rows: indexes } = await client.query<{ name: string; definition: string }>(
    `select 'weir.' || quote_ident(indexname) as name, indexdef as definition from pg_indexes where tablename = 'denials' and schemaname = 'weir'`,
  );
  for (const { name } of indexes) await client.query(`drop index ${name}`);
  await fill();
  await client.query(`set maintenance_work_mem = '256MB'`);
  for (const { name, definition } of keys)
    await client.query(`alter table weir.denials add constraint ${name} ${definition}`);
  for (const { definition } of indexes) await client.query(definition);
}

interface Asked {
  readonly ms: number;
  readonly usesIndex: boolean;
  readonly plan: readonly string[];
}

async function ask(
  client: pg.Client,
  kind: ViolatorKind,
  { nowMs, runs }: { readonly nowMs: number; readonly runs: number },
): Promise<Asked> {
  const period = { from: new Date(nowMs - DAY_MS), to: new Date(nowMs) };
  const { sql, params } = new PgDialect().sqlToQuery(violatorsQuery({ by: kind, ...period }));
  const text = `${sql} limit 50`;
  const times: number[] = [];
  for (let i = 0; i < runs; i += 1) {
    const startedAtMs = performance.now();
    await client.query(text, params);
    times.push(performance.now() - startedAtMs);
  }
  const { rows } = await client.query<{ 'QUERY PLAN': string }>(
    `explain (analyze, costs off) ${text}`,
    params,
  );
  const plan = rows.map((row) => row['QUERY PLAN']);
  return { ms: median(times), usesIndex: !plan.some((line) => line.includes('Seq Scan on denials')), plan };
}

async function startOwn(say: (line: string) => void, cleanup: AsyncDisposableStack): Promise<string> {
  const server = await startPostgresServer({ say });
  cleanup.defer(() => server.stop());
  await applyMigrations(server.url);
  return server.url;
}
