// Tests a deployment from where it serves requests: it uses every part that Weir needs once. `npm run smoke -- URL` asks
// for it and prints the findings, one line for each check. The setup of a deployment tests its regions by the same code.

import { sql } from 'drizzle-orm';
import * as z from 'zod';
import { CounterStoreError } from '../core/ports/region.ts';
import { CLOCK_SLACK_MS } from '../core/regions/placement.ts';
import type { Kv } from '../rules/edge/published.ts';
import type { Database } from '../rules/tables/repository.ts';
import type { AdminApp, AdminServices } from './app.ts';
import { addOperation } from './operation.ts';
import { postgresProblem } from './problems.ts';

const finding = z.strictObject({
  part: z.string().describe('`redis eu`, `kv`, `postgres` or `page`.'),
  check: z.string(),
  state: z
    .enum(['ok', 'warning', 'failed'])
    .describe('warning: the part works, but operators should know about the finding.'),
  found: z.string().describe('In words and figures.'),
  advice: z.string().optional().describe('What to do about it.'),
});
export type Finding = z.infer<typeof finding>;
type Result = Pick<Finding, 'state' | 'found' | 'advice'>;

const ok = (found: string): Result => ({ state: 'ok', found });
const warning = (found: string, advice: string): Result => ({ state: 'warning', found, advice });
const failed = (found: string, advice: string): Result => ({ state: 'failed', found, advice });

interface SmokeCheck {
  readonly part: string;
  readonly check: string;
  /** If the check throws. */
  readonly advice: string;
  readonly work: () => Result | Promise<Result>;
  /** Errors of Weir's own clients hold no secrets. Other errors may, so a finding only says that something failed. */
  readonly wordsOf?: (error: unknown) => string;
}

async function find({ part, check, advice, work, wordsOf = () => SILENT }: SmokeCheck): Promise<Finding> {
  try {
    return { part, check, ...(await work()) };
  } catch (error) {
    return { part, check, ...failed(wordsOf(error), advice) };
  }
}

const SILENT = 'it does not answer';

export const findPageHost = (adminHost: string | undefined): Finding => ({
  part: 'page',
  check: 'host of its own',
  ...(adminHost === undefined
    ? warning(
        'it shares its host with the API',
        'Set ADMIN_HOST: a script on a page of the API can attack the page. See docs/page.md.',
      )
    : ok(adminHost)),
});

// One region's Redis: its distance, the features that Weir's script needs, and its clock.

export interface SmokeRegion {
  readonly name: string;
  /** One command of Redis is a list of words. */
  readonly client: { command(signal: AbortSignal, words: readonly string[]): Promise<unknown> };
  /** Runs Weir's own script once; left out where the script is not available. */
  readonly probe?: ((signal: AbortSignal) => Promise<void>) | undefined;
}

export interface SmokeTimes {
  /** The time that a request has for its whole decision; undefined: the test does not run where requests are served. */
  readonly deadlineMs?: number;
  readonly now: () => number;
}

export interface RegionFindings {
  readonly name: string;
  readonly findings: readonly Finding[];
  /** How far its clock is ahead of this isolate's, and by how much that may be wrong; undefined: it does not answer. */
  readonly clock: { readonly aheadMs: number; readonly errorMs: number } | undefined;
}

const PINGS = 5;
/** Far more than a request waits, so that a slow region is reported as slow and not as down. */
const PATIENCE_MS = 5_000;

/** Tests the features of Lua and Redis that the counting script needs. The answer has a 1 for each that works. */
const FEATURES = `#!lua flags=allow-key-locking
local packed = cmsgpack.pack({ 1, 9007199254740991, 'text' })
local unpacked = cmsgpack.unpack(packed)
local isPacked = unpacked[2] == 9007199254740991 and unpacked[3] == 'text'
local isExact = string.format('%.17g', 0.1) == '0.10000000000000001'
local time = redis.call('TIME')
redis.call('SET', KEYS[1], packed, 'PX', 60000)
redis.call('SET', KEYS[1], packed, 'KEEPTTL')
local hasTtl = redis.call('PTTL', KEYS[1]) > 0
local isSame = redis.call('GET', KEYS[1]) == packed
redis.call('DEL', KEYS[1])
local function bit(value) if value then return 1 end return 0 end
return { bit(isPacked), bit(isExact), bit(#time == 2), bit(hasTtl), bit(isSame) }`;
const FEATURE_NAMES = ['cmsgpack', 'exact numbers', 'TIME', 'KEEPTTL', 'binary values'];

export async function findRegion(
  { name, client, probe }: SmokeRegion,
  times: SmokeTimes,
): Promise<RegionFindings> {
  const part = `redis ${name}`;
  const signal = () => AbortSignal.timeout(PATIENCE_MS);
  const wordsOf = (error: unknown) => (error instanceof CounterStoreError ? error.message : SILENT);
  let clock: RegionFindings['clock'];
  const distance = await find({
    part,
    check: 'distance',
    advice: 'Check its url and token in REGIONS, and that the database is not paused.',
    wordsOf: (error) => `${SILENT}: ${wordsOf(error)}`,
    async work() {
      const measured = await measure(client, times.now);
      clock = measured.clock;
      return judgeDistance(measured.ms, times);
    },
  });
  if (!clock) return { name, clock, findings: [distance] };
  const lua = await find({
    part,
    check: 'Lua features',
    advice: 'Weir needs Redis 6.2 or later, or Upstash.',
    wordsOf,
    work: async () => judgeFeatures(await client.command(signal(), ['EVAL', FEATURES, '1', '{weir:smoke}'])),
  });
  if (!probe) return { name, clock, findings: [distance, lua] };
  const script = await find({
    part,
    check: 'counting script',
    advice: 'docs/operations.md, "script-failed", has what Redis can say.',
    wordsOf,
    async work() {
      await probe(signal());
      return ok('it counts');
    },
  });
  return { name, clock, findings: [distance, lua, script] };
}

/** The median of some round trips, of which the first one also opens the connection; and the clock by the quickest. */
async function measure(client: SmokeRegion['client'], now: () => number) {
  const trips: { readonly ms: number; readonly aheadMs: number }[] = [];
  for (let i = 0; i <= PINGS; i += 1) {
    const sentMs = now();
    const reply = await client.command(AbortSignal.timeout(PATIENCE_MS), ['TIME']);
    const ms = now() - sentMs;
    trips.push({ ms, aheadMs: parseTime(reply) - (sentMs + ms / 2) });
  }
  const [quickest, ...others] = trips.slice(1).sort((a, b) => a.ms - b.ms);
  if (!quickest) throw new CounterStoreError('unavailable', 'no answer');
  return {
    ms: others[Math.floor(PINGS / 2) - 1]?.ms ?? quickest.ms,
    clock: { aheadMs: quickest.aheadMs, errorMs: quickest.ms / 2 },
  };
}

function parseTime(reply: unknown): number {
  const [seconds, microseconds] = Array.isArray(reply) ? reply.map(Number) : [];
  const ms = (seconds ?? Number.NaN) * 1_000 + (microseconds ?? Number.NaN) / 1_000;
  if (Number.isNaN(ms)) throw new CounterStoreError('bad-reply', 'the reply to TIME is not a time');
  return ms;
}

function judgeDistance(ms: number, { deadlineMs }: SmokeTimes): Result {
  const trip = `${ms.toFixed(0)} ms for a round trip`;
  if (deadlineMs === undefined) return ok(`${trip} from this machine`);
  const found = `${trip}, of the ${deadlineMs} ms that a decision has`;
  return ms < deadlineMs / 2
    ? ok(found)
    : warning(
        found,
        'Far regions are asked only when nearer ones are down. Raise DEADLINE_MS if that is too slow.',
      );
}

function judgeFeatures(reply: unknown): Result {
  const missing = FEATURE_NAMES.filter((_, i) => !Array.isArray(reply) || Number(reply[i]) !== 1);
  return missing.length === 0
    ? ok(FEATURE_NAMES.join(', '))
    : failed(`missing or different: ${missing.join(', ')}`, 'Weir cannot count on this Redis.');
}

/** Fails if two clocks differ by more than CLOCK_SLACK_MS, after subtracting the error of the measurement. */
export function compareClocks(regions: readonly RegionFindings[]): Finding[] {
  const [first, ...others] = regions.flatMap(({ name, clock }) => (clock ? [{ name, clock }] : []));
  if (!first) return [];
  return others.map(({ name, clock }) => {
    const differenceMs = Math.abs(clock.aheadMs - first.clock.aheadMs);
    const errorMs = clock.errorMs + first.clock.errorMs;
    const found = `${differenceMs.toFixed(0)} ms from that of ${first.name}, give or take ${errorMs.toFixed(0)} ms`;
    const advice = `Regions may differ by ${CLOCK_SLACK_MS} ms. Ask the provider, or take the region out of REGIONS.`;
    const isApart = differenceMs - errorMs > CLOCK_SLACK_MS;
    return { part: `redis ${name}`, check: 'clock', ...(isApart ? failed(found, advice) : ok(found)) };
  });
}

export interface SmokeOptions extends SmokeTimes {
  readonly database: Database;
  readonly kv: Kv;
  readonly regions: readonly SmokeRegion[];
  /** The host that alone answers the page; undefined: every host does. */
  readonly adminHost: string | undefined;
}

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

/** The shortest lifetime that KV accepts for a value. */
const KV_SECONDS = 60;

/** Uses a name that nobody has read before, because KV shows the value of such a name at once. */
const findKv = ({ kv, now }: SmokeOptions): Promise<Finding> =>
  find({
    part: 'kv',
    check: 'write and read',
    advice: 'Check the binding RULES in wrangler.toml, and the writes that your plan allows in a day.',
    async work() {
      const [name, text, startedAtMs] = [`smoke:${crypto.randomUUID()}`, crypto.randomUUID(), now()];
      await kv.put(name, text, { expirationTtl: KV_SECONDS });
      const isThere = (await kv.get(name)) === text;
      const found = `${now() - startedAtMs} ms`;
      return isThere
        ? ok(found)
        : warning(`${found}, not readable yet`, 'KV can take a minute. Run it again.');
    },
  });

async function findPostgres({ database, now }: SmokeOptions): Promise<Finding[]> {
  const common = { part: 'postgres', wordsOf: (error: unknown) => postgresProblem(error).title };
  const distance = await find({
    ...common,
    check: 'distance',
    advice: 'Check DATABASE_URL.',
    async work() {
      const startedAtMs = now();
      await database.execute(sql`select 1`);
      return ok(`${now() - startedAtMs} ms for a query; only requests of unknown callers wait for it`);
    },
  });
  if (distance.state === 'failed') return [distance];
  const tables = await find({
    ...common,
    check: 'tables',
    advice: 'Run `npm run db:migrate`.',
    work: () => judgeTables(database),
  });
  return [distance, tables];
}

async function judgeTables(database: Database): Promise<Result> {
  const { rows } = await database.execute<{ migrations: number; rules: number; published: boolean }>(sql`
    select (select count(*)::int from weir.migrations) as migrations,
      (select count(*)::int from weir.rules where enabled) as rules,
      exists (select from weir.last_publication) as published`);
  const { migrations = 0, rules = 0, published = false } = rows[0] ?? {};
  const found = `${migrations} migrations, ${rules} rules switched on`;
  return published ? ok(found) : warning(`${found}, never published`, 'POST /_weir/admin/publish');
}

const report = z
  .strictObject({
    ok: z.boolean().describe('Whether nothing failed. Warnings are not failures.'),
    servedFrom: z.string().optional().describe('The data centre of Cloudflare, by the code of its airport.'),
    findings: z.array(finding),
  })
  .meta({ id: 'SmokeReport' });

export function addSmokeRoutes(app: AdminApp, { smoke }: AdminServices): void {
  addOperation(
    app,
    {
      id: 'smoke',
      call: 'POST /smoke',
      group: 'operations',
      summary:
        'Test every part that Weir needs once: Redis in each region, its Lua and clock, KV and Postgres',
      says: 'The findings. The status is always 200.',
      answer: report,
    },
    async ({ request }) => {
      const findings = await smoke();
      const { colo } = ((request as { cf?: unknown }).cf ?? {}) as { colo?: string };
      const isWell = findings.every(({ state }) => state !== 'failed');
      return { ok: isWell, ...(colo !== undefined && { servedFrom: colo }), findings };
    },
  );
}
