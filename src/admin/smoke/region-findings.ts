// Tests one region's Redis: its distance, the features that Weir's script needs, and its clock.
import { CounterStoreError } from '../../core/ports/counter-store.ts';
import { CLOCK_SLACK_MS } from '../../core/regions/terms.ts';
import { attempt, type Finding } from './findings.ts';

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
