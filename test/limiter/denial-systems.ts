// Two systems that get the same requests: isolates that remember denials in front of shared counters, and a twin in
// which every request asks its counters.
import { denyingResults } from '../../src/core/decision.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import { createKnownDenials, type KnownDenials } from '../../src/limiter/memory.ts';
import type { Engine } from '../redis/engines.ts';
import { createRuleCheck, type RuleCheckShape } from './rule-checks.ts';

export interface Verdict {
  readonly allowed: boolean;
  /** Whether the counters were asked. */
  readonly asked: boolean;
  /** The longest wait of a denial. Undefined if it was allowed, or if no wait will ever help. */
  readonly retryAfterMs?: number | undefined;
}

/** A subject that nobody has used yet. The twin has its own copy. */
let subjects = 0;
export const nextSubject = (): string => `{denials}:${++subjects}`;
const ofTwin = (check: RuleCheck): RuleCheck => ({ ...check, key: `${check.key}:twin` });

export async function askCounters(engine: Engine, checks: readonly RuleCheck[], nowMs: number) {
  const { outcomes } = await engine.run({ operation: 'take', checks, nowMs });
  const results = checks.flatMap((check, i) => {
    const outcome = outcomes[i];
    return outcome ? [{ check, outcome }] : [];
  });
  const denying = denyingResults(results);
  const waits = denying.map(({ outcome }) => outcome.retryAfterMs ?? Number.POSITIVE_INFINITY);
  const longestMs = Math.max(...waits);
  const retryAfterMs = Number.isFinite(longestMs) ? longestMs : undefined;
  return { allowed: denying.length === 0, asked: true, retryAfterMs, answer: { nowMs, results } };
}

export const askTwin = (engine: Engine, checks: readonly RuleCheck[], nowMs: number): Promise<Verdict> =>
  askCounters(engine, checks.map(ofTwin), nowMs);

/** Decides like the limiter: by known denials, or else by the counters. */
export function createIsolates(engine: Engine, count: number) {
  const isolates = Array.from({ length: count }, () => createKnownDenials());
  const memoryOf = (isolate: number) => isolates[isolate % count] ?? createKnownDenials();
  return {
    isKnown: (isolate: number, checks: readonly RuleCheck[], nowMs: number) =>
      isKnownDenied(memoryOf(isolate), checks, nowMs),
    remember(isolate: number, { nowMs, results }: Results, askedAtMs: number) {
      const moment = { askedAtMs, answeredAtMs: nowMs, announcement: 'announcement' };
      for (const { check, outcome } of results) memoryOf(isolate).remember('owner', check, outcome, moment);
    },
    async decide(isolate: number, checks: readonly RuleCheck[], nowMs: number): Promise<Verdict> {
      if (this.isKnown(isolate, checks, nowMs)) return { allowed: false, asked: false };
      const { answer, ...verdict } = await askCounters(engine, checks, nowMs);
      if (!verdict.allowed) this.remember(isolate, answer, nowMs);
      return verdict;
    },
  };
}

type Results = Awaited<ReturnType<typeof askCounters>>['answer'];

/** Redis must see a request that may start a block, and a request of a rule that counts denied requests. */
function isKnownDenied(denials: KnownDenials, checks: readonly RuleCheck[], nowMs: number): boolean {
  const known = checks.filter((check) => denials.find('owner', check, nowMs, 'announcement'));
  const isTold = checks.some((check) => check.countDenied || (check.blockMs && !known.includes(check)));
  return known.length > 0 && !isTold;
}

/** From 0 to 1, the same numbers for a seed (mulberry32). */
export function createRandom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Random gaps between requests. On average, `load` times as many requests come as the check allows. */
export function createGaps(check: RuleCheck, load: number, random: () => number): () => number {
  const meanMs = (check.windowMs * check.cost) / (check.limit * load);
  return () => Math.floor(-Math.log(1 - random()) * meanMs + random());
}

export const checkOn = (key: string, shape: RuleCheckShape): RuleCheck => createRuleCheck({ ...shape, key });
