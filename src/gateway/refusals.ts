// Answers to requests that do not pass: problem+json that names the rule and how long to wait.
import {
  type CheckResult,
  type Decision,
  decisiveResult,
  denyingResults,
  type OverAllowanceDecision,
  resultsOf,
} from '../core/decision.ts';
import { toHex } from '../core/digest.ts';
import type { Credential, RuleCheck } from '../core/matching/plan.ts';
import type { RefusedRequest } from '../core/ports/telemetry.ts';
import { challengeFor, DEFAULT_KEY_PLACES, type KeyPlaces } from '../http/credentials.ts';
import type { ClientRequest } from '../http/guard.ts';
import { type Problem, problem } from '../http/problem.ts';
import { toSeconds } from './headers.ts';

const TYPES = 'https://iana.org/assignments/http-problem-types';
/** A guess at how long the counters stay unreachable. */
export const REDUCED_RETRY_SECONDS = 5;

/** What is told of a denied request: to the client, and to telemetry. */
export interface Refusal extends RefusedRequest {
  readonly problem: Problem;
}

export function describeRefusal(decision: Decision, { method, headers }: ClientRequest): Refusal {
  const requestId = requestIdOf(headers);
  return { requestId, method, problem: { ...problemOf(decision), 'request-id': requestId } };
}

/** Cloudflare sets the header itself; nobody else's text gets into answers and records. */
const RAY_ID = /^[0-9a-f]{16}(?=-[A-Z]{3}$|$)/;

/** Cloudflare's id of the request, without the data centre, or else one of ours in the same form. */
const requestIdOf = (headers: Headers): string =>
  RAY_ID.exec(headers.get('CF-Ray') ?? '')?.[0] ?? toHex(crypto.getRandomValues(new Uint8Array(8)));

/** The answer to a denied request; for HEAD, without a body. */
export function refusal(
  decision: Decision,
  { method, requestId, problem: body }: Partial<Refusal> = {},
  places: KeyPlaces = DEFAULT_KEY_PLACES,
): Response {
  const isUnverified = decision.kind === 'unverified' && decision.credential !== 'several-keys';
  const challenge = isUnverified && challengeTo(decision.credential, places);
  const answer = problem(body ?? problemOf(decision), {
    ...(requestId !== undefined && { 'X-Weir-Request': requestId }),
    ...(challenge && { 'WWW-Authenticate': challenge }),
  });
  return method === 'HEAD' ? new Response(null, answer) : answer;
}

function problemOf(decision: Decision): Problem {
  // Gives no reason: a caller on the deny list need not know why.
  if (decision.kind === 'listed') return { status: 403, code: 'denied', title: 'Not allowed' };
  if (decision.kind === 'unverified')
    return decision.credential === 'several-keys' ? SEVERAL_KEYS : unverified(decision.credential);
  if (decision.kind === 'over-allowance') return tooManyLookUps(decision);
  const violated = denyingResults(resultsOf(decision));
  const decisive = decisiveResult(violated);
  if (decisive) return denied(decisive, violated);
  const isBusy = decision.kind === 'degraded' && decision.fallback === 'cap';
  return {
    type: `${TYPES}#temporary-reduced-capacity`,
    status: 503,
    code: 'temporary-reduced-capacity',
    title: 'Temporarily unavailable',
    detail: isBusy
      ? 'The counters cannot be reached right now, and too many requests arrive at once.'
      : 'A rule for this request admits only counted requests, and the counters cannot be reached right now.',
    // The cap of an isolate is per second, so a second is enough.
    'retry-after': isBusy ? 1 : REDUCED_RETRY_SECONDS,
  };
}

const denied = (decisive: CheckResult<RuleCheck>, violated: readonly CheckResult<RuleCheck>[]): Problem => ({
  type: `${TYPES}#quota-exceeded`,
  status: decisive.check.rule.status,
  ...whyDenied(decisive),
  policy: decisive.check.rule.policy,
  'violated-policies': violated.map(({ check }) => check.rule.policy),
});

function whyDenied({ check, outcome: { retryAfterMs } }: CheckResult<RuleCheck>) {
  const { message } = check.rule;
  if (retryAfterMs === undefined) {
    const why = `The request costs ${check.cost}, which is more than the limit can ever hold.`;
    const detail = message === null ? why : `${message} ${why}`;
    return { code: 'cost-above-limit', title: 'This request can never pass', detail };
  }
  const seconds = toSeconds(retryAfterMs);
  const detail = message ?? `Try again in ${seconds} s.`;
  return { code: 'rate-limited', title: 'Too many requests', detail, 'retry-after': seconds };
}

const challengeTo = (credential: Credential | 'several-keys', places: KeyPlaces) =>
  credential === 'token' ? 'Bearer error="invalid_token"' : challengeFor(places);

/** Never counts by one of them: the origin could act for the other. */
const SEVERAL_KEYS: Problem = {
  status: 400,
  code: 'several-keys',
  title: 'The request shows several API keys',
  detail: 'Different places of the request have different keys. Send one key.',
};

/** Used with `UNVERIFIED=reject`. Otherwise such a request counts against the IP. */
const unverified = (credential: Credential): Problem => ({
  status: 401,
  code: 'unverified-credentials',
  title: 'The credential is not valid',
  detail: `The ${credential === 'token' ? 'token' : 'API key'} of this request is not valid.`,
});

/** Never passes as an anonymous request: that would be a way around the limits and the deny entries of the caller. */
function tooManyLookUps({ credential, retryAfterMs }: OverAllowanceDecision): Problem {
  const seconds = toSeconds(retryAfterMs);
  const who = credential === 'token' ? 'the user of this token' : 'this API key';
  return {
    status: 429,
    code: 'too-many-look-ups',
    title: 'Too many unknown callers',
    detail:
      `Weir does not know ${who} yet, and may not look it up now: ` +
      `too many unknown callers came from this address or at once. Try again in ${seconds} s.`,
    'retry-after': seconds,
  };
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

/** To a request whose path can be read in two ways. */
export const ambiguousPath = (detail: string): Response =>
  problem({ status: 400, code: 'bad-path', title: 'Ambiguous path', detail });

export function notConfigured({ message, errors }: Error & Pick<Problem, 'errors'>): Response {
  console.error(message);
  return problem({ status: 500, code: 'bad-config', title: 'Weir is not configured', errors });
}

/** Only in development, where X-Weir-Region names a region. A typing error must not silently use another region. */
export const unknownRegion = (regions: readonly { readonly name: string }[]): Response =>
  problem({
    status: 400,
    code: 'unknown-region',
    title: 'There is no such region',
    detail: `X-Weir-Region must be one of ${regions.map(({ name }) => name).join(', ')}.`,
  });
