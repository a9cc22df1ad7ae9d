// How long a cession, a charge and the move of a rule last between regions.
import { type AlgorithmId, traitsOf } from '../counting/algorithms/registry.ts';
import type { Borders } from '../counting/calendar.ts';
import { hasBurst } from '../counting/capacity.ts';
import type { Counting, Part, Parts } from './parts.ts';

/** The most that two clocks may differ, and the longest that a command may be under way. */
export const CLOCK_SLACK_MS = 5_000;

/** A cession lasts this many windows, within these bounds. A caller that moves to another region waits for its end. */
const TERM_WINDOWS = 4;
const SHORTEST_TERM_MS = 30_000;
const LONGEST_TERM_MS = 600_000;

/**
 * Rules that no region has confirmed for this long may place a limit where it is no longer counted. If newer rules are
 * announced, a request waits for them.
 */
export const RULES_LAPSE_MS = 60_000;
/**
 * Once every region has an announcement, older rules lapse everywhere: after this time, no isolate uses them. The extra
 * 30 s cover clocks that differ and commands that are late.
 */
export const OLD_RULES_GONE_MS = RULES_LAPSE_MS + 30_000;
/** A charge counts for at most two windows, or until a burst has drained, which takes longer with rounded parts. */
export const CHARGE_WINDOWS = 2;
export const BURST_DRAIN_TIMES = 4;

interface Timed {
  readonly algorithm: AlgorithmId;
  readonly windowMs: number;
  readonly borders?: Borders | undefined;
}

export const termMs = ({ windowMs }: Pick<Timed, 'windowMs'>): number =>
  Math.min(LONGEST_TERM_MS, Math.max(SHORTEST_TERM_MS, TERM_WINDOWS * windowMs));

/** The longest time for which a charge can count, by the whole limit or its slowest part, plus the clock difference. */
export function holdMs(check: Timed & { readonly full: Part }, parts: Parts): number {
  const { chargeLastsMs } = traitsOf(check.algorithm);
  const ways = [check.full, ...parts.values()].filter(({ limit }) => limit > 0);
  return Math.max(...ways.map((way) => chargeLastsMs({ ...check, ...way }))) + CLOCK_SLACK_MS;
}

/** How long charges from before a move may still count, whatever the parts were. */
export function movingMs({ windowMs, limit, extra, algorithm }: Timed & Omit<Counting, 'cost'>): number {
  const burst = hasBurst({ algorithm }) ? (extra ?? 0) : 0;
  return (
    OLD_RULES_GONE_MS + CHARGE_WINDOWS * windowMs + Math.ceil((BURST_DRAIN_TIMES * windowMs * burst) / limit)
  );
}

/** The part of a limit that split parts may leave unused. */
const MAX_LOST = 0.01;

/** Whether parts used side by side would lose too much of this limit. Then one region counts it. */
export function isMerged(
  check: { readonly algorithm: AlgorithmId; readonly full: Part; readonly cost: number },
  parts: Parts,
): boolean {
  const { roundsEachPart } = traitsOf(check.algorithm);
  return roundsEachPart === true && (parts.size - 1) * check.cost > MAX_LOST * check.full.limit;
}
