// Isolates that lease from one counter. Each has its own clock, and calls take time or are lost. Records every
// admission, by the clock of the counter.
import { createRandom, type Random } from '../../local/random.ts';
import type { Admission } from '../../local/simulator/ledger.ts';
import { createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import { createPlacer } from '../../src/core/regions/placement.ts';
import { createLeaseBook, type LeaseBook } from '../../src/limiter/leases.ts';
import { createRegion } from './fake-regions.ts';
import { START_MS } from './rule-checks.ts';

export interface LeaseWorld {
  readonly seed: number;
  readonly check: RuleCheck;
  readonly isolates: number;
  /** The largest difference between two clocks. */
  readonly skewMs: number;
  readonly longestWayMs: number;
  /** The fraction of all answers that is lost. */
  readonly lossRate: number;
  readonly lastsMs: number;
}

export interface Played {
  readonly admissions: readonly Admission[];
  /** Admissions from leased units. */
  readonly leased: number;
}

interface Isolate {
  readonly book: LeaseBook;
  readonly nowMs: () => number;
  /** Requests per millisecond, until `untilMs`. */
  perMs: number;
  untilMs: number;
}

/** No requests, few, many, and more than the limit admits. */
const PACES = [0, 0.05, 0.2, 0.3, 0.4, 2];

export function playLeases(world: LeaseWorld): Played {
  const { check, lossRate, longestWayMs } = world;
  const random = createRandom(world.seed);
  const counters = createMemoryCounters();
  const region = createRegion('us', { isolates: world.isolates });
  const admissions: Admission[] = [];
  let leased = 0;
  let nowMs = START_MS + Math.floor(random() * 10_000);
  const endsAtMs = nowMs + world.lastsMs;
  const [placed] = createPlacer({ us: 1 }, () => nowMs)([check], [region], undefined);
  if (!placed) throw new Error('the check is placed');
  const later = createAgenda();
  const isolates = Array.from({ length: world.isolates }, () =>
    openIsolate(random, world.skewMs, () => nowMs),
  );

  const admit = (atMs: number) =>
    void admissions.push({
      ...{ atMs, region: 0, units: check.cost, request: admissions.length },
      ...{ limit: check.full.limit, burst: check.full.extra },
    });
  const wayMs = () => Math.floor(random() * (longestWayMs + 1));

  const ask = ({ book, nowMs: own }: Isolate) => {
    const sentAtMs = own();
    const leaseUnits = book.claim([region], placed, check);
    later.add(nowMs + wayMs(), () => {
      const { outcomes } = runChecks('take', [{ ...check, leaseUnits }], nowMs, counters);
      const chargedAtMs = nowMs;
      const [outcome] = outcomes;
      if (!outcome?.allowed || random() < lossRate) return;
      admit(chargedAtMs);
      const granted = {
        region,
        check,
        outcome,
        whole: outcome,
        sentAtMs,
        chargedAtMs,
        usedNow: check.cost,
        announcement: '',
      };
      later.add(nowMs + wayMs(), () => {
        if (leaseUnits > 0) book.answered(check);
        book.note(granted);
      });
    });
  };

  const giveBack = ({ book }: Isolate) => {
    for (const { check: charged, units, chargedAtMs } of book.takeIdle()) {
      const refund = { ...charged, cost: units, chargedAtMs };
      later.add(nowMs + wayMs(), () => void runChecks('refund', [refund], nowMs, counters));
    }
  };

  const request = (isolate: Isolate) => {
    const used = isolate.book.has(placed) && isolate.book.use([placed], { noteLeased: () => {} });
    if (used) {
      leased += 1;
      admit(nowMs);
    } else ask(isolate);
  };

  for (; nowMs < endsAtMs; nowMs += 1) {
    later.run(nowMs);
    for (const isolate of isolates) {
      if (nowMs >= isolate.untilMs) turn(isolate, random, nowMs);
      for (let left = isolate.perMs; left > 0 && random() < left; left -= 1) request(isolate);
      if (random() < 0.01) giveBack(isolate);
    }
  }
  return { admissions, leased };
}

function openIsolate(random: Random, skewMs: number, now: () => number): Isolate {
  const aheadMs = Math.round((random() - 0.5) * skewMs);
  const own = () => now() + aheadMs;
  return { book: createLeaseBook(own), nowMs: own, perMs: 0, untilMs: 0 };
}

function turn(isolate: Isolate, random: Random, nowMs: number): void {
  isolate.perMs = PACES[Math.floor(random() * PACES.length)] ?? 0;
  isolate.untilMs = nowMs + 20 + Math.floor(random() * 1_500);
}

/** Work by the millisecond at which it is due. */
function createAgenda() {
  const work = new Map<number, (() => void)[]>();
  return {
    add: (atMs: number, what: () => void) => void work.set(atMs, [...(work.get(atMs) ?? []), what]),
    run(atMs: number) {
      for (let some = work.get(atMs); some; some = work.get(atMs)) {
        work.delete(atMs);
        for (const what of some) what();
      }
    },
  };
}
