// The answers to requests that do not pass: problem+json that says which rule, and how long to wait.
import { type CountedDecision, type Decision, decisiveResult, denyingResults } from '../core/decision.ts';
import { toSeconds } from './headers.ts';
import { problem } from './problem.ts';

const TYPES = 'https://iana.org/assignments/http-problem-types';
/** Until counters that cannot be reached may be back. */
const REDUCED_RETRY_SECONDS = 5;

export function refusal(decision: Decision): Response {
  if (decision.kind === 'counted') return denied(decision);
  return decision.kind === 'listed' ? listed() : reducedCapacity();
}

function denied({ results }: CountedDecision): Response {
  const decisive = decisiveResult(results);
  const rule = decisive?.check.rule;
  const waitMs = decisive?.outcome.retryAfterMs;
  return problem({
    type: `${TYPES}#quota-exceeded`,
    status: rule?.status ?? 429,
    code: 'rate-limited',
    title: 'Too many requests',
    detail: rule?.message ?? waitInWords(waitMs),
    rule: rule?.name,
    'violated-policies': denyingResults(results).map(({ check }) => check.rule.name),
  });
}

const waitInWords = (waitMs: number | undefined) =>
  waitMs === undefined
    ? 'This request costs more than the limit can ever hold.'
    : `Try again in ${toSeconds(waitMs)} s.`;

/** Says no more: whoever is on the list need not know why. */
const listed = () => problem({ status: 403, code: 'denied', title: 'Not allowed' });

const reducedCapacity = () =>
  problem(
    {
      type: `${TYPES}#temporary-reduced-capacity`,
      status: 503,
      code: 'temporary-reduced-capacity',
      title: 'Not available for a moment',
      detail:
        'Requests to this path are let through only when they can be counted, which is not possible now.',
    },
    { 'Retry-After': String(REDUCED_RETRY_SECONDS) },
  );
