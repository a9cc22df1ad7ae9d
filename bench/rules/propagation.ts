// How long a change through the admin route takes until every isolate enforces it in every region.
import { type IsolateName, REGIONS, type Weir } from '../../local/weir.ts';
import type { BenchOptions } from '../shared/bench.ts';
import { median } from '../shared/rounds.ts';
import { createBodies } from './random-rules.ts';

const CHANGES = 40;
/** Two isolates have traffic all the time; the third is asked once, after the answer to the change. */
const BUSY: readonly IsolateName[] = ['one', 'two'];
const IDLE: IsolateName = 'three';
export const GIVE_UP_MS = 10_000;

interface Place {
  readonly isolate: IsolateName;
  readonly region: string;
}

export interface Propagation {
  readonly rules: number;
  /** Milliseconds, of the changes that were enforced everywhere. */
  readonly p50: number;
  readonly max: number;
  readonly changes: number;
  /** Some place did not enforce them before the bench gave up. */
  readonly unenforced: number;
}

/** For each number of rules beside the one that changes, smallest first. */
export async function measurePropagation(
  weir: Weir,
  ruleCounts: readonly number[],
  options: BenchOptions,
): Promise<Propagation[]> {
  const { id } = await weir.admin<{ id: string }>('/rules', { method: 'POST', body: WATCHED });
  // No limit comes twice: a place that still enforces an earlier one is told from one that does not.
  let { limit } = WATCHED;
  const change = () => measureChange(weir, id, ++limit);
  const measured: Propagation[] = [];
  for (const rules of ruleCounts) {
    await weir.admin('/import', { method: 'POST', body: { weir: 1, rules: rulesBeside(rules) } });
    measured.push(await measureChanges(rules, change, options));
  }
  return measured;
}

async function measureChanges(
  rules: number,
  change: () => Promise<number>,
  { say, scaled }: BenchOptions,
): Promise<Propagation> {
  const changes = scaled(CHANGES);
  const times: number[] = [];
  while (times.length < changes) {
    times.push(await change());
    if (times.length % 10 === 0)
      say(`propagation with ${rules} rules: ${times.length} of ${changes} changes`);
  }
  const enforced = times.filter(Number.isFinite);
  const unenforced = changes - enforced.length;
  return { rules, p50: median(enforced), max: Math.max(...enforced), changes, unenforced };
}

const WATCHED = {
  resource: '/watched',
  scope: 'ip',
  algorithm: 'fixed-window',
  limit: 1,
  windowSeconds: 60,
};

/** The first ten apply to every request, and would be in the headers. Nothing names a tier, for there are none. */
const rulesBeside = (count: number) =>
  createBodies(count + 10)
    .slice(10)
    .map((body) => ({ ...body, tiers: [], limit: 100, limitName: null }));

/** From sending the change to the moment when the last place has enforced it; infinite if one has not. */
async function measureChange(weir: Weir, id: string, limit: number): Promise<number> {
  // Somewhere between two questions of a busy isolate.
  await pause(Math.random() * 300);
  const startedAtMs = performance.now();
  const busy = BUSY.flatMap((isolate) => REGIONS.map((region) => enforced(weir, { isolate, region }, limit)));
  await weir.admin(`/rules/${id}`, { method: 'PATCH', body: { limit } });
  const idle = REGIONS.map((region) => enforced(weir, { isolate: IDLE, region }, limit));
  const moments = await Promise.all([...busy, ...idle]);
  return Math.max(...moments) - startedAtMs;
}

async function enforced(weir: Weir, place: Place, limit: number): Promise<number> {
  const giveUpAtMs = performance.now() + GIVE_UP_MS;
  while (performance.now() < giveUpAtMs) {
    if ((await limitAt(weir, place)) === String(limit)) return performance.now();
    await pause(5);
  }
  return Number.POSITIVE_INFINITY;
}

/** None, if the request failed or was not counted. */
async function limitAt(weir: Weir, place: Place): Promise<string | null> {
  const answer = await weir.call('/watched', place).catch(() => undefined);
  await answer?.body?.cancel();
  return answer?.headers.get('X-RateLimit-Limit') ?? null;
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
