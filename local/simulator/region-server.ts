// A region as the network sees it: its counters by its own clock, its announcement, and its faults.
import type { Operation } from '../../src/core/counting/check.ts';
import { createMemoryCounters, PROBE_CHECKS, runChecks } from '../../src/core/counting/counters.ts';
import type { AnswerOf, CallOf, CountCall } from '../../src/core/ports/region.ts';
import type { VirtualTime } from './virtual-time.ts';

export interface RegionServer {
  readonly name: string;
  /** How far its clock is ahead of the true time. */
  readonly skewMs: number;
  /** Null if the region has forgotten the announcement, and has not received it again. */
  announced: string | null;
  isolates: number;
  /** Calls that arrive before `untilMs` get no answer. If they are kept, they run at that moment. */
  hangs: { readonly untilMs: number; readonly areKept: boolean };
  /** Forgets everything. */
  restart(): void;
  run<O extends Operation>(operation: O, call: CallOf<O>): AnswerOf<O>;
  reset(keys: readonly string[]): void;
  probe(): void;
  /** Counters that have not expired, among those that a call has ever named. */
  live(): string[];
}

export function createRegionServer(
  name: string,
  { time, skewMs }: { readonly time: VirtualTime; readonly skewMs: number },
): RegionServer {
  let counters = createMemoryCounters();
  const named = new Map<string, Set<string>>();
  const clock = () => time.now() + skewMs;
  const note = ({ checks }: CountCall) => {
    for (const { key, id } of checks) {
      const ids = named.get(key);
      if (ids) ids.add(id);
      else named.set(key, new Set([id]));
    }
  };
  return {
    name,
    skewMs,
    announced: '',
    isolates: 1,
    hangs: { untilMs: Number.NEGATIVE_INFINITY, areKept: false },
    restart() {
      counters = createMemoryCounters();
    },
    run(operation, call) {
      note(call);
      const { withAnnouncement }: CountCall = call;
      const answer = runChecks(operation, call.checks, clock(), counters);
      return withAnnouncement ? { ...answer, announced: this.announced } : answer;
    },
    reset(keys) {
      for (const key of keys) counters.reset(key);
    },
    probe() {
      this.run('take', { checks: PROBE_CHECKS });
    },
    live: () =>
      [...named].flatMap(([key, ids]) =>
        [...ids]
          .filter((id) => (counters.get(key, id)?.expiresAtMs ?? 0) > clock())
          .map((id) => `${name} ${key} ${id}`),
      ),
  };
}
