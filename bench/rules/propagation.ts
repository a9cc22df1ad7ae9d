// How long a change through the admin route takes until every isolate enforces it in every region.
import { type IsolateName, REGIONS, startWeir, type Weir } from '../../local/weir.ts';
import { median } from '../shared/rounds.ts';
import { createContent } from './random-rules.ts';

const CHANGES = 40;
/** Two isolates have traffic all the time; the third is asked once, after the answer to the change. */
const BUSY: readonly IsolateName[] = ['one', 'two'];
const IDLE: IsolateName = 'three';
const GIVE_UP_MS = 10_000;

export interface Propagation {
  readonly p50: number;
  readonly max: number;
}

export async function measurePropagation(
  ruleCount: number,
  say: (line: string) => void,
): Promise<Propagation> {
  await using weir = await startWeir();
  await weir.admin('/import', { method: 'POST', body: { weir: 1, rules: rulesBeside(ruleCount) } });
  const watched = {
    resource: '/watched',
    scope: 'ip',
    algorithm: 'fixed-window',
    limit: 1,
    windowSeconds: 60,
  };
  const { id } = await weir.admin<{ id: string }>('/rules', { method: 'POST', body: watched });

  const times: number[] = [];
  for (let limit = 2; limit <= CHANGES + 1; limit += 1) {
    times.push(await measureChange(weir, id, limit));
    if (times.length % 10 === 0)
      say(`propagation with ${ruleCount} rules: ${times.length} of ${CHANGES} changes`);
  }
  return { p50: median(times), max: Math.max(...times) };
}

/** As the admin route takes them. The first ten apply to every request, and would be in the headers. */
const rulesBeside = (count: number) =>
  createContent(count + 10)
    .rules.slice(10)
    .map(({ ordinal: _, counterId: __, tiers: ___, ...rule }) => ({ ...rule, limit: 100, limitName: null }));

/** From sending the change to the moment when the last place has enforced it. */
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

async function enforced(
  weir: Weir,
  place: { readonly isolate: IsolateName; readonly region: string },
  limit: number,
): Promise<number> {
  const giveUpAtMs = performance.now() + GIVE_UP_MS;
  while (performance.now() < giveUpAtMs) {
    const answer = await weir.call('/watched', place);
    await answer.body?.cancel();
    if (answer.headers.get('X-RateLimit-Limit') === String(limit)) return performance.now();
    await pause(5);
  }
  throw new Error(`not enforced in isolate ${place.isolate}, region ${place.region}`);
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
