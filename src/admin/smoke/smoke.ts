// Tests a deployment from where it serves requests: it uses every part that Weir needs once.
import { sql } from 'drizzle-orm';
import type { Kv } from '../../rules/book/kv.ts';
import type { Database } from '../../rules/tables/database.ts';
import { postgresProblem } from '../postgres-problems.ts';
import { attempt, type Finding, findPageHost } from './findings.ts';
import { compareClocks, findRegion, type SmokeRegion, type SmokeTimes } from './region-findings.ts';

export interface SmokeOptions extends SmokeTimes {
  readonly database: Database;
  readonly kv: Kv;
  readonly regions: readonly SmokeRegion[];
  /** The host that alone answers the page; undefined: every host does. */
  readonly adminHost: string | undefined;
}

/** The shortest lifetime that KV accepts for a value. */
const KV_SECONDS = 60;

export async function runSmoke(options: SmokeOptions): Promise<Finding[]> {
  // One region after the other: a request may have few open connections, and waiting for one would look like distance.
  const regions = [];
  for (const region of options.regions) regions.push(await findRegion(region, options));
  return [
    ...regions.flatMap(({ findings }) => findings),
    ...compareClocks(regions),
    await findKv(options),
    ...(await findPostgres(options)),
    findPageHost(options.adminHost),
  ];
}

/** Uses a name that nobody has read before, because KV shows the value of such a name at once. */
function findKv({ kv, now }: SmokeOptions): Promise<Finding> {
  const advice = 'Check the binding RULES in wrangler.toml, and the writes that your plan allows in a day.';
  return attempt({ part: 'kv', check: 'write and read', advice }, async () => {
    const [name, text, startedAtMs] = [`smoke:${crypto.randomUUID()}`, crypto.randomUUID(), now()];
    await kv.put(name, text, { expirationTtl: KV_SECONDS });
    const isThere = (await kv.get(name)) === text;
    const found = `${now() - startedAtMs} ms`;
    if (isThere) return { state: 'ok', found };
    return {
      state: 'warning',
      found: `${found}, not readable yet`,
      advice: 'KV can take a minute. Run it again.',
    };
  });
}

async function findPostgres({ database, now }: SmokeOptions): Promise<Finding[]> {
  const wordsOf = (error: unknown) => postgresProblem(error).title;
  const part = 'postgres';
  const answers = await attempt(
    { part, check: 'distance', advice: 'Check DATABASE_URL.' },
    async () => {
      const startedAtMs = now();
      await database.execute(sql`select 1`);
      return {
        state: 'ok',
        found: `${now() - startedAtMs} ms for a query; only requests of unknown callers wait for it`,
      };
    },
    wordsOf,
  );
  if (answers.state === 'failed') return [answers];
  const tables = await attempt(
    { part, check: 'tables', advice: 'Run `npm run db:migrate`.' },
    () => countTables(database),
    wordsOf,
  );
  return [answers, tables];
}

async function countTables(database: Database): Promise<Omit<Finding, 'part' | 'check'>> {
  const { rows } = await database.execute<{ migrations: number; rules: number; published: boolean }>(sql`
    select (select count(*)::int from weir.migrations) as migrations,
      (select count(*)::int from weir.rules where enabled) as rules,
      exists (select from weir.last_publication) as published`);
  const { migrations = 0, rules = 0, published = false } = rows[0] ?? {};
  const found = `${migrations} migrations, ${rules} rules switched on`;
  if (published) return { state: 'ok', found };
  return { state: 'warning', found: `${found}, never published`, advice: 'POST /_weir/admin/publish' };
}
