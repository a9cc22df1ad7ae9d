// Isolates that are far from their counters: a request takes a while to reach the counters, and so does the answer on
// its way back. The requests of the twin take as long.
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import { ask, type Engine } from '../redis/engines.ts';
import { askCounters, askTwin, createGaps, createIsolates, createRandom } from './denial-systems.ts';
import { START_MS } from './rule-checks.ts';

const LONGEST_WAY_MS = 20;
/** The counters' clock is ahead of the isolates' clock. No result may depend on the difference. */
const AHEAD_MS = 300;

export interface SlowPlay {
  readonly engine: Engine;
  readonly check: RuleCheck;
  readonly load: number;
  readonly isolates: number;
  readonly requests: number;
  readonly seed: number;
}

export interface SlowlyPlayed {
  /** When requests were admitted, by the clock of the counters. */
  readonly remembering: readonly number[];
  readonly twin: readonly number[];
  /** How many requests memory denied while the counters had room. */
  readonly outlived: number;
}

interface Moment {
  readonly atMs: number;
  happen(): void | Promise<void>;
}

export async function playSlowly(slow: SlowPlay): Promise<SlowlyPlayed> {
  const { engine, check, isolates } = slow;
  const random = createRandom(slow.seed);
  const gapMs = createGaps(check, slow.load, random);
  const system = createIsolates(engine, isolates);
  const remembering: number[] = [];
  const twin: number[] = [];
  let outlived = 0;

  const momentsOf = (askedAtMs: number): Moment[] => {
    const isolate = Math.floor(random() * isolates);
    const judgedAtMs = askedAtMs + Math.floor(random() * (LONGEST_WAY_MS + 1));
    const answeredAtMs = judgedAtMs + Math.floor(random() * (askedAtMs + LONGEST_WAY_MS + 1 - judgedAtMs));
    let isKnown = false;
    let answer: Awaited<ReturnType<typeof askCounters>> | undefined;
    return [
      {
        atMs: askedAtMs,
        async happen() {
          isKnown = system.isKnown(isolate, [check], askedAtMs);
          if (isKnown && (await ask(engine, 'peek', check, askedAtMs + AHEAD_MS)).allowed) outlived += 1;
        },
      },
      {
        atMs: judgedAtMs,
        async happen() {
          const theirsMs = judgedAtMs + AHEAD_MS;
          if ((await askTwin(engine, [check], theirsMs)).allowed) twin.push(theirsMs);
          if (!isKnown) answer = await askCounters(engine, [check], theirsMs);
          if (answer?.allowed) remembering.push(theirsMs);
        },
      },
      {
        atMs: answeredAtMs,
        happen() {
          if (answer?.allowed === false) system.remember(isolate, answer.answer, askedAtMs);
        },
      },
    ];
  };

  let nowMs = START_MS;
  const moments = Array.from({ length: slow.requests }, () => {
    nowMs += gapMs();
    return momentsOf(nowMs);
  }).flat();
  // The sort is stable, so at the same moment an effect comes after its cause.
  for (const { happen } of moments.sort((a, b) => a.atMs - b.atMs)) await happen();
  return { remembering, twin, outlived };
}
