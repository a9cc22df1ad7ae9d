// Measures how long a change through the admin route takes until every isolate enforces it in every region.
import { type IsolateName, REGIONS, type Weir } from '../../local/weir.ts';
import type { BenchOptions } from '../shared/bench.ts';
import { median } from '../shared/rounds.ts';
import { createBodies } from './random-rules.ts';

const CHANGES = 40;
/** Two isolates always have traffic. The third is asked once, after the answer to the change. */
const BUSY: readonly IsolateName[] = ['one', 'two'];
const IDLE: IsolateName = 'three';
export const GIVE_UP_MS = 10_000;

/** The reason of a place that is only late. */
export const OLDER_LIMIT = 'an older limit';

interface Place {
  readonly isolate: IsolateName;
  readonly region: string;
}

export interface Propagation {
  readonly rules: number;
  /** Milliseconds, for changes that were enforced everywhere. */
  readonly p50: number;
  readonly max: number;
  readonly changes: number;
  /** For each change that was not in force everywhere: why places did not enforce it before the bench gave up. */
  readonly unenforced: readonly (readonly string[])[];
}

/** For each number of other rules, smallest first. */
export async function measurePropagation(
  weir: Weir,
  ruleCounts: readonly number[],
  options: BenchOptions,
): Promise<Propagation[]> {
  const { id } = await weir.admin<{ id: string }>('/rules', { method: 'POST', body: WATCHED });
  // No limit comes twice, so that a place with an earlier limit can be recognized.
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
  change: () => Promise<Change>,
  { say, scaled }: BenchOptions,
): Promise<Propagation> {
  const changes = scaled(CHANGES);
  const times: number[] = [];
  const unenforced: (readonly string[])[] = [];
  for (let i = 1; i <= changes; i += 1) {
    const { tookMs, reasons } = await change();
    if (reasons.length === 0) times.push(tookMs);
    else unenforced.push(reasons);
    if (i % 10 === 0) say(`propagation with ${rules} rules: ${i} of ${changes} changes`);
  }
  return { rules, p50: median(times), max: Math.max(...times), changes, unenforced };
}

const WATCHED = {
  resource: '/watched',
  scope: 'ip',
  algorithm: 'fixed-window',
  limit: 1,
  windowSeconds: 60,
};

/**
 * Leaves out the first ten, which apply to every request and would be in the headers. No rule names a tier, because
 * there are none.
 */
const rulesBeside = (count: number) =>
  createBodies(count + 10)
    .slice(10)
    .map((body) => ({ ...body, tiers: [], limit: body.limits ? null : 100, limitName: null }));

interface Change {
  /** From sending the change until the last place enforced it. */
  readonly tookMs: number;
  /** Why places did not enforce it. */
  readonly reasons: readonly string[];
}

async function measureChange(weir: Weir, id: string, limit: number): Promise<Change> {
  // At a random moment between two questions of a busy isolate.
  await pause(Math.random() * 300);
  const startedAtMs = performance.now();
  const busy = BUSY.flatMap((isolate) => REGIONS.map((region) => enforced(weir, { isolate, region }, limit)));
  await weir.admin(`/rules/${id}`, { method: 'PATCH', body: { limit } });
  const idle = REGIONS.map((region) => enforced(weir, { isolate: IDLE, region }, limit));
  const all = await Promise.all([...busy, ...idle]);
  const momentsMs = all.filter((one) => typeof one === 'number');
  return {
    tookMs: Math.max(...momentsMs) - startedAtMs,
    reasons: all.filter((one) => typeof one === 'string'),
  };
}

/** When the place enforced the limit, or why it has not. */

async function enforced(weir: Weir, place: Place, limit: number): Promise<number | string> {
  const giveUpAtMs = performance.now() + GIVE_UP_MS;
  let trouble: string | undefined;
  do {
    trouble = await troubleAt(weir, place, limit).catch(String);
    if (trouble === undefined) return performance.now();
    await pause(5);
  } while (performance.now() < giveUpAtMs);
  return trouble;
}

/** Why the limit did not count this request. Undefined if it did. */
async function troubleAt(weir: Weir, place: Place, limit: number): Promise<string | undefined> {
  const { status, headers, body } = await weir.call('/watched', place);
  await body?.cancel();
  const told = headers.get('X-RateLimit-Limit');
  if (told === String(limit)) return undefined;
  return headers.get('X-Weir-Degraded') ?? (told === null ? `status ${status}, no limit` : OLDER_LIMIT);
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
