// Tests a deployment from where it serves requests: it uses every part that Weir needs once.

import { sql } from 'drizzle-orm';
import * as z from 'zod';
import { CounterStoreError } from '../core/ports/region.ts';
import { CLOCK_SLACK_MS } from '../core/regions/placement.ts';
import type { Kv } from '../rules/edge/published.ts';
import type { Database } from '../rules/tables/repository.ts';
import type { AdminApp, AdminServices } from './app.ts';
import { addOperation } from './operation.ts';
import { postgresProblem } from './problems.ts';

// The results of a smoke test: one line for each check.

/** `warning`: the part works, but operators should know about the finding. */
export const STATES = ['ok', 'warning', 'failed'] as const;

export interface Finding {
  /** `redis eu`, `kv`, `postgres`, `page`. */
  readonly part: string;
  readonly check: string;
  readonly state: (typeof STATES)[number];
  /** What was found, in words and figures. */
  readonly found: string;
  /** What to do about it. */
  readonly advice?: string;
}

/** Errors of Weir's own clients hold no secrets. Other errors may, so a finding only says that something failed. */
export interface SmokeStep {
  readonly part: string;
  readonly check: string;
  readonly advice: string;
}

export async function attempt(
  { part, check, advice }: SmokeStep,
  work: () => Promise<Omit<Finding, 'part' | 'check'>>,
  wordsOf: (error: unknown) => string = () => 'it does not answer',
): Promise<Finding> {
  try {
    return { part, check, ...(await work()) };
  } catch (error) {
    return { part, check, state: 'failed', found: wordsOf(error), advice };
  }
}

export const findPageHost = (adminHost: string | undefined): Finding => ({
  part: 'page',
  check: 'host of its own',
  ...(adminHost === undefined
    ? {
        state: 'warning',
        found: 'it shares its host with the API',
        advice: 'Set ADMIN_HOST: a script on a page of the API can attack the page. See docs/page.md.',
      }
    : { state: 'ok', found: adminHost }),
});

// Tests one region's Redis: its distance, the features that Weir's script needs, and its clock.

/** One command of Redis, as a list of words. */
export interface RedisClient {
  command(signal: AbortSignal, words: readonly string[]): Promise<unknown>;
}

export interface SmokeRegion {
  readonly name: string;
  readonly client: RedisClient;
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
  /** Undefined if the region does not answer. */
  readonly clock: Clock | undefined;
}

/** How far the clock is ahead of this isolate's, and by how much that may be wrong. */
interface Clock {
  readonly aheadMs: number;
  readonly errorMs: number;
}

const PINGS = 5;
/** Far more than a request waits, so that a slow region is reported as slow and not as down. */
const PATIENCE_MS = 5_000;
const REACH = 'Check its url and token in REGIONS, and that the database is not paused.';

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

export async function findRegion(region: SmokeRegion, times: SmokeTimes): Promise<RegionFindings> {
  const { name, client } = region;
  const part = `redis ${name}`;
  const signal = () => AbortSignal.timeout(PATIENCE_MS);
  const reached = await measure(client, times.now).catch(toError);
  if (reached instanceof Error) {
    const found = `it does not answer: ${wordsOf(reached)}`;
    return {
      name,
      clock: undefined,
      findings: [{ part, check: 'distance', state: 'failed', found, advice: REACH }],
    };
  }
  const lua = await attempt(
    { part, check: 'Lua features', advice: 'Weir needs Redis 6.2 or later, or Upstash.' },
    async () => missingFeatures(await client.command(signal(), ['EVAL', FEATURES, '1', '{weir:smoke}'])),
    wordsOf,
  );
  const { probe } = region;
  const script =
    probe &&
    (await attempt(
      {
        part,
        check: 'counting script',
        advice: 'docs/operations.md, "script-failed", has what Redis can say.',
      },
      async () => {
        await probe(signal());
        return { state: 'ok', found: 'it counts' };
      },
      wordsOf,
    ));
  return {
    name,
    clock: reached.clock,
    findings: [distance(part, reached.ms, times), lua, ...(script ? [script] : [])],
  };
}

interface Reached {
  /** The median of some round trips; the first one also opens the connection. */
  readonly ms: number;
  readonly clock: Clock;
}

async function measure(client: RedisClient, now: () => number): Promise<Reached> {
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

function distance(part: string, ms: number, { deadlineMs }: SmokeTimes): Finding {
  const trip = `${ms.toFixed(0)} ms for a round trip`;
  if (deadlineMs === undefined)
    return { part, check: 'distance', state: 'ok', found: `${trip} from this machine` };
  const found = `${trip}, of the ${deadlineMs} ms that a decision has`;
  if (ms < deadlineMs / 2) return { part, check: 'distance', state: 'ok', found };
  const advice =
    'Far regions are asked only when nearer ones are down. Raise DEADLINE_MS if that is too slow.';
  return { part, check: 'distance', state: 'warning', found, advice };
}

function missingFeatures(reply: unknown): Omit<Finding, 'part' | 'check'> {
  const missing = FEATURE_NAMES.filter((_, i) => !Array.isArray(reply) || Number(reply[i]) !== 1);
  if (missing.length === 0) return { state: 'ok', found: FEATURE_NAMES.join(', ') };
  return {
    state: 'failed',
    found: `missing or different: ${missing.join(', ')}`,
    advice: 'Weir cannot count on this Redis.',
  };
}

/** Fails if two clocks differ by more than CLOCK_SLACK_MS, after subtracting the error of the measurement. */
export function compareClocks(regions: readonly RegionFindings[]): Finding[] {
  const [first, ...others] = regions.flatMap(({ name, clock }) => (clock ? [{ name, clock }] : []));
  if (!first) return [];
  return others.map(({ name, clock }) => {
    const differenceMs = Math.abs(clock.aheadMs - first.clock.aheadMs);
    const errorMs = clock.errorMs + first.clock.errorMs;
    const isApart = differenceMs - errorMs > CLOCK_SLACK_MS;
    return {
      part: `redis ${name}`,
      check: 'clock',
      state: isApart ? 'failed' : 'ok',
      found: `${differenceMs.toFixed(0)} ms from that of ${first.name}, give or take ${errorMs.toFixed(0)} ms`,
      ...(isApart && {
        advice: `Regions may differ by ${CLOCK_SLACK_MS} ms. Ask the provider, or take the region out of REGIONS.`,
      }),
    };
  });
}

const wordsOf = (error: unknown): string =>
  error instanceof CounterStoreError ? error.message : 'it does not answer';
const toError = (error: unknown): Error => (error instanceof Error ? error : new Error('no answer'));

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

// The smoke test of a deployment: `npm run smoke -- URL` asks for it and prints it.

const report = z
  .strictObject({
    ok: z.boolean().describe('Whether nothing failed. Warnings are not failures.'),
    servedFrom: z.string().optional().describe('The data centre of Cloudflare, by the code of its airport.'),
    findings: z.array(
      z.strictObject({
        part: z.string().describe('`redis eu`, `kv`, `postgres` or `page`.'),
        check: z.string(),
        state: z.enum(STATES),
        found: z.string(),
        advice: z.string().optional(),
      }),
    ),
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
      const ok = findings.every(({ state }) => state !== 'failed');
      return { ok, ...(colo !== undefined && { servedFrom: colo }), findings };
    },
  );
}
