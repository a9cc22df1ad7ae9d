// Answers to requests that do not pass: problem+json that names the rule and how long to wait.
import {
  type CheckResult,
  type Decision,
  decisiveResult,
  denyingResults,
  type OverAllowanceDecision,
  resultsOf,
} from '../core/decision.ts';
import type { Credential, RuleCheck } from '../core/matching/plan.ts';
import { problem } from '../http/problem.ts';
import { toSeconds } from './headers.ts';

const TYPES = 'https://iana.org/assignments/http-problem-types';
/** A guess at how long the counters stay unreachable. */
export const REDUCED_RETRY_SECONDS = 5;

/** The answer to a denied request; for HEAD, without a body. */
export function refusal(decision: Decision, method = 'GET'): Response {
  const answer = refusalWithBody(decision);
  return method === 'HEAD' ? new Response(null, answer) : answer;
}

/** For a denied request if its refusal cannot be made. It needs nothing that could fail as well. */
export const plainRefusal = (): Response => new Response(null, { status: 429 });

/** For an admitted request that Weir failed to pass on, because of a bug. */
export const notPassedOn = (): Response =>
  problem({
    status: 502,
    code: 'internal-error',
    title: 'Weir could not pass the request on',
    detail: 'This is a bug in Weir. The API behind it may have got the request.',
  });

function refusalWithBody(decision: Decision): Response {
  if (decision.kind === 'listed') return listed();
  if (decision.kind === 'unverified') return unverifiedCredentials(decision.credential);
  if (decision.kind === 'over-allowance') return tooManyLookUps(decision);
  const violated = denyingResults(resultsOf(decision));
  const decisive = decisiveResult(violated);
  if (decisive) return denied(decisive, violated);
  return reducedCapacity(decision.kind === 'degraded' && decision.fallback === 'cap' ? BUSY : CLOSED);
}

function denied(decisive: CheckResult<RuleCheck>, violated: readonly CheckResult<RuleCheck>[]): Response {
  const { rule } = decisive.check;
  return problem({
    type: `${TYPES}#quota-exceeded`,
    status: rule.status,
    ...whyDenied(decisive),
    policy: rule.policy,
    'violated-policies': violated.map(({ check }) => check.rule.policy),
  });
}

function whyDenied({ check, outcome: { retryAfterMs } }: CheckResult<RuleCheck>) {
  const { message } = check.rule;
  if (retryAfterMs === undefined) {
    const detail = `The request costs ${check.cost}, which is more than the limit can ever hold.`;
    return {
      code: 'cost-above-limit',
      title: 'This request can never pass',
      detail: message === null ? detail : `${message} ${detail}`,
    };
  }
  const seconds = toSeconds(retryAfterMs);
  const detail = message ?? `Try again in ${seconds} s.`;
  return { code: 'rate-limited', title: 'Too many requests', detail, 'retry-after': seconds };
}

/** Gives no reason: a caller on the deny list need not know why. */
export const listed = () => problem({ status: 403, code: 'denied', title: 'Not allowed' });

const CHALLENGES: Readonly<Record<Credential, string>> = {
  token: 'Bearer error="invalid_token"',
  'api-key': 'ApiKey header="X-API-Key"',
};

/** Used with `UNVERIFIED=reject`. Otherwise such a request counts against the IP. */
export const unverifiedCredentials = (credential: Credential): Response =>
  problem(
    {
      status: 401,
      code: 'unverified-credentials',
      title: 'The credential is not valid',
      detail: `The ${credential === 'token' ? 'token' : 'API key'} of this request is not valid.`,
    },
    { 'WWW-Authenticate': CHALLENGES[credential] },
  );

/** Never passes as an anonymous request: that would be a way around the limits and the deny entries of the caller. */
function tooManyLookUps({ credential, retryAfterMs }: OverAllowanceDecision): Response {
  const seconds = toSeconds(retryAfterMs);
  const who = credential === 'token' ? 'the user of this token' : 'this API key';
  return problem(
    {
      status: 429,
      code: 'too-many-look-ups',
      title: 'Too many unknown callers',
      detail:
        `Weir does not know ${who} yet, and may not look it up now: ` +
        `too many unknown callers came from this address or at once. Try again in ${seconds} s.`,
      'retry-after': seconds,
    },
    { 'Retry-After': String(seconds) },
  );
}

const CLOSED = {
  detail:
    'A rule for this request admits only counted requests, and the counters cannot be reached right now.',
  retrySeconds: REDUCED_RETRY_SECONDS,
};
/** The cap of an isolate is per second, so a second is enough. */
const BUSY = {
  detail: 'The counters cannot be reached right now, and too many requests arrive at once.',
  retrySeconds: 1,
};

const reducedCapacity = ({ detail, retrySeconds }: typeof CLOSED) =>
  problem(
    {
      type: `${TYPES}#temporary-reduced-capacity`,
      status: 503,
      code: 'temporary-reduced-capacity',
      title: 'Temporarily unavailable',
      detail,
      'retry-after': retrySeconds,
    },
    { 'Retry-After': String(retrySeconds) },
  );

/** Only in development, where X-Weir-Region names a region. A typing error must not silently use another region. */
export const unknownRegion = (regions: readonly { readonly name: string }[]): Response =>
  problem({
    status: 400,
    code: 'unknown-region',
    title: 'There is no such region',
    detail: `X-Weir-Region must be one of ${regions.map(({ name }) => name).join(', ')}.`,
  });
