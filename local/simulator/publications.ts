// Publications of an episode, and how isolates learn of them: a region announces one, an isolate reads the announcement
// along with a check, and loads what is new. This is what src/rules/edge/snapshot-source.ts does, without KV.
import type { Snapshot } from '../../src/core/matching/snapshot.ts';
import type { Probe, SnapshotSource } from '../../src/core/ports/snapshot-source.ts';
import { RULES_LAPSE_MS } from '../../src/core/regions/placement.ts';
import type { Random } from '../random.ts';
import { happens } from './draw.ts';

/** Announced by its number. A reset of counters publishes the same rules again. */
export interface Publication {
  readonly snapshot: Snapshot;
}

const ASK_MS = 250;
const OVERDUE_MS = 500;
const PAUSE_MS = 1_000;
/** One load in ten is slow. */
const LOAD_MS = 200;
const SLOW_LOAD_MS = 1_500;

export interface PublishedSourceOptions {
  readonly publications: readonly Publication[];
  readonly now: () => number;
  readonly random: Random;
}

/** The source of an isolate that starts with the rules in force. */
export function createPublishedSource(
  { publications, now, random }: PublishedSourceOptions,
  inForce: number,
): SnapshotSource {
  let known = inForce;
  let confirmedAtMs = Number.NEGATIVE_INFINITY;
  let askedAtMs = Number.NEGATIVE_INFINITY;
  let failedAtMs = Number.NEGATIVE_INFINITY;
  return {
    current: () => publications[known]?.snapshot,
    announced: () => String(known),
    isConfirmed: (sinceMs) => confirmedAtMs > sinceMs - OVERDUE_MS,
    probe(): Probe | undefined {
      const nowMs = now();
      if (nowMs - failedAtMs < PAUSE_MS) return undefined;
      const isOverdue = nowMs - confirmedAtMs >= OVERDUE_MS;
      if (!isOverdue && (nowMs - confirmedAtMs < ASK_MS || nowMs - askedAtMs < ASK_MS)) return undefined;
      askedAtMs = nowMs;
      const isLapsed = nowMs - confirmedAtMs >= RULES_LAPSE_MS;
      return { expected: String(known), isOverdue, isLapsed, askedAtMs };
    },
    confirm(probe) {
      confirmedAtMs = Math.max(confirmedAtMs, probe.askedAtMs);
    },
    fail() {
      failedAtMs = now();
    },
    async load({ announced }) {
      const startedAtMs = now();
      const mostMs = happens(random, 0.9) ? LOAD_MS : SLOW_LOAD_MS;
      await new Promise((resolve) => setTimeout(resolve, random() * mostMs));
      // A region that does not know the newest publication announces an older one.
      known = Math.max(known, Number(announced));
      confirmedAtMs = startedAtMs;
      failedAtMs = Number.NEGATIVE_INFINITY;
      return true;
    },
    start: async () => publications[known]?.snapshot,
  };
}
