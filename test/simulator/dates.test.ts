// While a rule moves, two regions charge a request at two moments. The judge dates it by one of them.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { dateRequests } from '../../local/simulator/dates.ts';
import { type Admission, type Counted, findBeyond } from '../../local/simulator/ledger.ts';
import { createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';
import { checkOf } from '../limiter/regional-isolate.ts';
import { rounds } from '../rounds.ts';

const [OLD, NEW, NEWEST] = [0, 1, 2];
const LIMIT = 2;
const WINDOW_MS = 1_000;
/** Buckets need more than dates: src/limiter/merging.ts carries their level over. The simulator judges them, too. */
const ALGORITHMS = ['sliding-window-log', 'sliding-window-buckets'] as const;
type Algorithm = (typeof ALGORITHMS)[number];
const counted = (algorithm: Algorithm): Counted => ({
  algorithm,
  windowMs: WINDOW_MS,
  boundMs: 0,
  forgettings: [],
});

const chargeOf = (request: number, region: number, atMs: number): Admission => ({
  atMs,
  region,
  request,
  units: 1,
  limit: LIMIT,
  burst: undefined,
});
/** The charges of requests, each a list of region and moment. */
const chargesOf = (requests: readonly (readonly (readonly [number, number])[])[]) =>
  requests.map((charges, request) => charges.map(([region, atMs]) => chargeOf(request, region, atMs)));
const regionsOf = (requests: Parameters<typeof chargesOf>[0]) =>
  dateRequests(chargesOf(requests))
    .sort((a, b) => a.request - b.request)
    .map(({ region }) => region);

describe('a request that two regions have charged', () => {
  it('is dated by the old region as long as another is charged there alone, and then by the new one', () => {
    const both = (atMs: number) => [[OLD, atMs] as const, [NEW, atMs + 50] as const];
    expect(
      regionsOf([[[OLD, 100]], both(200), [[OLD, 300]], both(400), both(500), [[NEW, 600]], both(700)]),
    ).toEqual([OLD, OLD, OLD, NEW, NEW, NEW, NEW]);
  });

  it('is dated by the region that counted without a pause, if a second move began before the first ended', () => {
    expect(
      regionsOf([
        [[OLD, 100]],
        [
          [OLD, 200],
          [NEW, 210],
        ],
        [
          [OLD, 300],
          [NEW, 310],
          [NEWEST, 320],
        ],
        [
          [NEW, 400],
          [NEWEST, 410],
        ],
        [[NEWEST, 500]],
      ]),
    ).toEqual([OLD, NEW, NEWEST, NEWEST, NEWEST]);
  });

  it('is dated by the old region if the rule moves back and forth and that region always counted', () => {
    expect(
      regionsOf([
        [[OLD, 100]],
        [
          [OLD, 200],
          [NEW, 210],
        ],
        [
          [NEW, 300],
          [OLD, 310],
        ],
        [[OLD, 400]],
      ]),
    ).toEqual([OLD, OLD, OLD, OLD]);
  });
});

/** A request: when it is sent, how much later each region runs its charge, and what its isolate knows of the move. */
interface Request {
  readonly pauseMs: number;
  readonly tookMs: readonly [number, number];
}
/** The move lasts longer than a window, as in src/core/regions/placement.ts. */
const MOVE = { startMs: 1_500, knownMs: 2_000, endMs: 4_500 };

/** Plays requests on two counters while a rule moves, and returns the charges of those that pass. */
function play(algorithm: Algorithm, requests: readonly Request[], order: 'old first' | 'new first') {
  const stores = [createMemoryCounters(), createMemoryCounters()];
  const check = checkOf('moves', { algorithm, limit: LIMIT, windowMs: WINDOW_MS, extra: undefined });
  const storeOf = (region: number) => stores[region] as (typeof stores)[0];
  const take = (region: number, atMs: number) =>
    runChecks('take', [check], atMs, storeOf(region)).outcomes[0]?.allowed === true;
  const refund = (region: number, atMs: number, chargedAtMs: number) =>
    runChecks('refund', [{ ...check, chargedAtMs }], atMs, storeOf(region));
  interface Sent {
    readonly request: number;
    readonly regions: readonly number[];
    readonly tookMs: readonly [number, number];
    readonly charges: Admission[];
    atMs: number;
  }
  let sentAtMs = 0;
  const waiting: Sent[] = requests.map(({ pauseMs, tookMs }, request) => {
    sentAtMs += pauseMs;
    const knows = sentAtMs >= MOVE.knownMs || (sentAtMs >= MOVE.startMs && request % 2 === 0);
    const both = order === 'old first' ? [OLD, NEW] : [NEW, OLD];
    const regions = sentAtMs >= MOVE.endMs ? [NEW] : knows ? both : [OLD];
    return { request, regions, tookMs, charges: [], atMs: sentAtMs + tookMs[0] };
  });
  const passed: Admission[][] = [];
  for (;;) {
    const [next] = waiting.sort((a, b) => a.atMs - b.atMs);
    if (!next) return passed;
    const region = next.regions[next.charges.length] as number;
    const isAllowed = take(region, next.atMs);
    if (!isAllowed) for (const one of next.charges) refund(one.region, next.atMs, one.atMs);
    if (isAllowed) next.charges.push(chargeOf(next.request, region, next.atMs));
    const isDone = !isAllowed || next.charges.length === next.regions.length;
    if (isDone) waiting.shift();
    if (isAllowed && isDone) passed.push(next.charges);
    next.atMs += next.tookMs[1];
  }
}

const tookMs = fc.integer({ min: 0, max: 100 });
const drawn = fc.array(
  fc.record({ pauseMs: fc.integer({ min: 0, max: 20 }), tookMs: fc.tuple(tookMs, tookMs) }),
  { minLength: 600, maxLength: 600 },
);

describe('while a rule moves and the old region charges first', () => {
  it.each(ALGORITHMS)('the dates of the requests keep the limit: %s', (algorithm) =>
    fc.assert(
      fc.property(drawn, (requests) => {
        const dated = dateRequests(play(algorithm, requests, 'old first'));
        expect(findBeyond(counted(algorithm), dated)).toBeUndefined();
      }),
      { numRuns: rounds(30), endOnFailure: true },
    ),
  );

  it('the order matters: charged in the new region first, the same requests exceed the limit', () => {
    const exceeds = fc.sample(drawn, { numRuns: 100, seed: 1 }).filter((requests) => {
      const dated = dateRequests(play('sliding-window-log', requests, 'new first'));
      return findBeyond(counted('sliding-window-log'), dated) !== undefined;
    });
    expect(exceeds.length).toBeGreaterThan(0);
  });
});
