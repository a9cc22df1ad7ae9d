// For how long things hold between regions: a part that was ceded, a charge that was made, a rule that is being moved.
import { type AlgorithmId, traitsOf } from '../counting/algorithms/registry.ts';
import type { Borders } from '../counting/calendar.ts';
import { type Counting, hasBurst, type Share, type Shares } from './shares.ts';

/** Two clocks differ by no more than this, and no command is later. */
export const CLOCK_SLACK_MS = 5_000;

/** A part is ceded for so many windows, within these bounds: a caller that moves waits for the end of it. */
const TERM_WINDOWS = 4;
const SHORTEST_TERM_MS = 30_000;
const LONGEST_TERM_MS = 600_000;

/** Until every isolate has heard of what every region has been told. */
export const HEARD_MS = 90_000;
/** A charge counts for two windows at most; or until a burst has drained, which takes longer where parts are rounded. */
export const CHARGE_WINDOWS = 2;
export const ROUNDED_BURSTS = 4;

interface Timed {
  readonly algorithm: AlgorithmId;
  readonly windowMs: number;
  readonly borders?: Borders | undefined;
}

export const termMs = ({ windowMs }: Pick<Timed, 'windowMs'>): number =>
  Math.min(LONGEST_TERM_MS, Math.max(SHORTEST_TERM_MS, TERM_WINDOWS * windowMs));

/** The longest time for which a charge can count, by the pace of the whole or of its slowest part; clocks included. */
export function holdMs(check: Timed & { readonly full: Share }, parts: Shares): number {
  const { chargeLastsMs } = traitsOf(check.algorithm);
  const ways = [check.full, ...parts.values()].filter(({ limit }) => limit > 0);
  return Math.max(...ways.map((way) => chargeLastsMs({ ...check, ...way }))) + CLOCK_SLACK_MS;
}

/** What was admitted before a rule was moved may count for so long, whatever its parts were. */
export function movingMs({ windowMs, limit, extra, algorithm }: Timed & Omit<Counting, 'cost'>): number {
  const burst = hasBurst({ algorithm }) ? (extra ?? 0) : 0;
  return HEARD_MS + CHARGE_WINDOWS * windowMs + Math.ceil((ROUNDED_BURSTS * windowMs * burst) / limit);
}

/** Of the limit. */
const MAX_LOST = 0.01;

/** Whether parts that are used side by side would lose too much of this limit: then it is counted in one region. */
export function isMerged(
  check: { readonly algorithm: AlgorithmId; readonly full: Share; readonly cost: number },
  parts: Shares,
): boolean {
  const { roundsEachPart } = traitsOf(check.algorithm);
  return roundsEachPart === true && (parts.size - 1) * check.cost > MAX_LOST * check.full.limit;
}
