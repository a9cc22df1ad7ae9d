// Brings the rules up to date for a check that they cannot plan: a rule that it names may be newer than the rules of
// this isolate. Without this, an isolate that gets only such checks would never read the announcement. Only checks load
// this file.

import type { Snapshot } from '../core/matching/snapshot.ts';
import { createPerSecondBudget } from '../core/time.ts';
import { createDeadline } from './deadline.ts';
import { createRulesInForce, type RulesInForceOptions, type RulesRequest } from './rules-in-force.ts';

/** For an isolate. Names that nobody has published must not cost a call to Redis each. */
const REFRESHES_PER_SECOND = 5;

export type RefreshResult =
  /** The isolate has other rules than before. */
  | 'newer'
  /** No region announces other rules. */
  | 'same'
  /** No region has answered, or the new rules cannot be loaded. */
  | 'unknown';

/** `used` are the rules that could not plan the check. */
export type RefreshRules = (used: Snapshot, request: RulesRequest['request']) => Promise<RefreshResult>;

export function createRulesRefresh(options: RulesInForceOptions): RefreshRules {
  const { snapshots, deadlineMs, now } = options;
  const rules = createRulesInForce(options);
  const budget = createPerSecondBudget(REFRESHES_PER_SECOND);
  let last: RefreshResult = 'same';

  const ask = async (request: RulesRequest['request']): Promise<RefreshResult> => {
    const expected = snapshots.announced();
    // Rules that miss what is asked for are worth no more than none, so the request waits as if they had lapsed.
    const probe = { expected, isOverdue: true, isLapsed: true, askedAtMs: now() };
    const asking = { request, deadline: createDeadline(deadlineMs, now), probe };
    const { news } = (await rules.hear(asking)) ?? {};
    if (news) return (await rules.follow(news, asking)) ? 'newer' : 'unknown';
    return snapshots.isConfirmed(now()) ? 'same' : 'unknown';
  };

  return async (used, request) => {
    if (snapshots.current() !== used) return 'newer';
    // Rules in code have no announcement.
    if (snapshots.announced() === '') return 'same';
    if (!budget.hasRoom(now())) return last === 'newer' ? 'same' : last;
    budget.take();
    last = await ask(request);
    return last;
  };
}
