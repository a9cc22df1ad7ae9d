// Three regions in memory, in fake time, that transfer parts of one counter to each other.
import { vi } from 'vitest';
import type { Operation } from '../../src/core/counting/check.ts';
import type { PlacedCheck } from '../../src/core/regions/placement.ts';
import { createLedger } from '../../src/limiter/ledger.ts';
import { createCountingIsolate } from './counting-isolate.ts';
import { START_MS } from './fake-regions.ts';
import { settleAll, timed } from './limiter-harness.ts';
import { createModelRegion, type ModelRegion, seenFrom } from './model-regions.ts';
import { type Parts, place } from './placed.ts';
import { chargesIn } from './regional-count-harness.ts';
import type { RuleCheckShape } from './rule-checks.ts';

const now = () => Date.now();
/** For a window of a minute: four windows. Then one window more for the last charges, and five seconds for clocks. */
export const TERM_MS = 240_000;
export const HELD_MS = TERM_MS + 60_000 + 5_000;
export const atMs = (ms: number) => vi.setSystemTime(START_MS + ms);

export function open(
  parts: Parts = { us: 10, eu: 10, ap: 10 },
  shape: RuleCheckShape & { at?: string } = {},
) {
  const regions = ['us', 'eu', 'ap'].map((name) => createModelRegion(name)) as [
    ModelRegion,
    ModelRegion,
    ModelRegion,
  ];
  const later: Promise<unknown>[] = [];
  const placed = place(parts, shape);
  const createIsolate = (nearest = 0) => {
    const regional = createCountingIsolate(now);
    const request = async (checks: readonly PlacedCheck[] = [placed]) => {
      const ledger = createLedger(() => {});
      const { decision: counted } = await timed(() =>
        regional.count({
          placed: checks,
          regions: seenFrom(regions, nearest),
          afterResponse: (work) => void later.push(work),
          ledger,
        }),
      );
      return { ...counted, charged: chargesIn(ledger, counted) };
    };
    return { request };
  };
  const settle = () => settleAll(later, regions);
  const { request } = createIsolate();
  /** Sends one request after the other, each with all its work after the response. */
  const send = async (count: number, by = request) => {
    for (let i = 1; i < count; i += 1) await by().then(settle);
    const last = await by();
    await settle();
    return last;
  };
  const asked = (operation: Operation = 'transfer') =>
    regions.flatMap(({ name, calls }) =>
      calls.filter((call) => call.operation === operation).map(() => name),
    );
  const [us, eu, ap] = regions;
  return { us, eu, ap, regions, placed, request, send, settle, asked, createIsolate };
}
