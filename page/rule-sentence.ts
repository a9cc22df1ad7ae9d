// Writes a rule as one sentence, so that people see what it means before they save it. Pure.

import { count, span } from './format.ts';
import type { Counts } from './traffic.ts';

// The algorithms that the page offers. The browser gets no code of the engine, so this file repeats their ids. A test
// compares them with the registry.

export const ALGORITHMS = [
  'fixed-window',
  'sliding-window-log',
  'sliding-window-counter',
  'sliding-window-buckets',
  'token-bucket',
  'leaky-bucket',
  'gcra',
  'concurrency',
];

/** Whether the algorithm limits open connections, and not requests over time. */
export const holdsSeats = (algorithm: string): boolean => algorithm === 'concurrency';

export interface LimitFields {
  /** In the form of a new rule, a text such as `20 / minute` may stand among several limits. */
  readonly limit?: number | string | null | undefined;
  readonly limitName?: string | null | undefined;
  readonly limitClaim?: string | null | undefined;
  readonly limitMax?: number | null | undefined;
  readonly windowSeconds?: number | null | undefined;
  readonly window?: string | null | undefined;
}

export interface RuleBody extends LimitFields {
  readonly resource?: string | null | undefined;
  readonly resources?: readonly string[] | undefined;
  readonly methods?: readonly string[] | undefined;
  readonly scope?: string | undefined;
  readonly tiers?: readonly string[] | undefined;
  readonly tenants?: readonly string[] | undefined;
  readonly subjects?: readonly string[] | undefined;
  readonly algorithm?: string | null | undefined;
  readonly burst?: number | null | undefined;
  readonly limits?: readonly LimitFields[] | undefined;
  readonly action?: string | undefined;
  readonly times?: number | null | undefined;
  readonly status?: number | undefined;
  readonly enabled?: boolean | undefined;
  readonly percent?: number | undefined;
  readonly blockSeconds?: number | null | undefined;
  readonly validFrom?: string | null | undefined;
  readonly validUntil?: string | null | undefined;
}

const WHO: Readonly<Record<string, string>> = {
  global: 'All callers together',
  tenant: 'Each tenant',
  user: 'Each user',
  apiKey: 'Each API key',
  ip: 'Each IP address',
  all: 'Every caller',
};

export function sentenceOf(rule: RuleBody): string {
  const start = `${whoOf(rule)}${tenantsOf(rule)}${tiersOf(rule)}`;
  const sentence = `${start} ${effectOf(rule)}`;
  return [rule.enabled === false ? 'Switched off:' : '', sentence, percentOf(rule), timeOf(rule)]
    .filter(Boolean)
    .join(' ');
}

function effectOf(rule: RuleBody): string {
  const where = `${methodsOf(rule)} to ${resourcesOf(rule)}`;
  if (rule.action === 'allow') return `may send any number of ${where}: broader rules do not apply there.`;
  if (rule.action === 'multiply')
    return `has ${rule.times ?? '…'} times what rules of ${rule.scope === 'all' ? 'all scopes' : 'this scope'} allow for ${where}.`;
  return `may send ${where}: ${limitsOf(rule)}; ${consequenceOf(rule)}.`;
}

const whoOf = ({ subjects = [], scope = '' }: RuleBody) =>
  subjects.length > 0 && scope !== 'global'
    ? `${subjects.length > 1 ? 'Each of ' : ''}${some(subjects)}`
    : (WHO[scope] ?? 'Each …');

const tenantsOf = ({ tenants = [] }: RuleBody) =>
  tenants.length > 0 ? ` of tenant ${tenants.length > 3 ? some(tenants) : tenants.join(' or ')}` : '';
const tiersOf = ({ tiers = [] }: RuleBody) => (tiers.length > 0 ? ` of tier ${tiers.join(' or ')}` : '');
const methodsOf = ({ methods = [] }: RuleBody) =>
  methods.length > 0 ? `${methods.join(' and ')} requests` : 'requests';

function resourcesOf({ resource, resources = [] }: RuleBody): string {
  const all = resources.length > 0 ? resources : [resource || '…'];
  return all.includes('/*') ? 'any path' : some(all);
}

const some = (names: readonly string[]) =>
  names.length > 3 ? `${names.slice(0, 3).join(', ')} and ${names.length - 3} more` : names.join(' and ');

function limitsOf(rule: RuleBody): string {
  const all = rule.limits && rule.limits.length > 0 ? rule.limits : [rule];
  const said = all.map((one) => limitOf(one, rule.algorithm ?? '')).join(' and ');
  return rule.burst ? `${said} (up to ${count(rule.burst)} at once)` : said;
}

function limitOf(said: LimitFields, algorithm: string): string {
  const { limit, limitName, limitClaim, limitMax, windowSeconds, window } = said;
  if (typeof limit === 'string') return limit;
  const fallback = limit ? `, ${count(limit)} where the tier has none,` : '';
  const usual = limitName ? `what its tier allows as “${limitName}”${fallback}` : limit ? count(limit) : '…';
  const amount = limitClaim
    ? `what its claim “${limitClaim}” says, up to ${limitMax ? count(limitMax) : '…'}, or else ${usual}`
    : usual;
  return holdsSeats(algorithm)
    ? `${amount} open at once`
    : `${amount} every ${windowSeconds ? span(windowSeconds) : (window ?? '…')}`;
}

function consequenceOf({ action, status = 429, blockSeconds }: RuleBody): string {
  if (action === 'log') return 'more than that pass, and are only recorded (shadow)';
  if (action === 'throttle') return 'more than that wait for their turn';
  return `more are answered ${status}${blockSeconds ? `, and keep the caller out for ${span(blockSeconds)}` : ''}`;
}

const percentOf = ({ percent = 100 }: RuleBody) => (percent < 100 ? `Tried with ${percent} % of them.` : '');

const timeOf = ({ validFrom, validUntil }: RuleBody) =>
  [
    validFrom ? `From ${new Date(validFrom).toLocaleString()}.` : '',
    validUntil ? `Until ${new Date(validUntil).toLocaleString()}.` : '',
  ]
    .filter(Boolean)
    .join(' ');

// How near a rule is to its limit, from the checks that isolates have counted. Pure.

export interface Nearness {
  readonly checks: number;
  /** Denied, or with at most a fifth of the limit left. */
  readonly near: number;
}

export const WHAT_IS_NEAR =
  'Near the limit: the part of a rule’s checks, since the metrics began, that were denied or found a fifth of the limit or less left.';

const NEAR = ['near-limit', 'denied', 'would-deny'];

/** `counts` is undefined if nothing was counted under the name of the rule. */
export function nearnessOf(counts: Counts = {}): Nearness {
  const sum = (results: readonly string[]) =>
    results.reduce((total, result) => total + (counts[result] ?? 0), 0);
  return { checks: sum(Object.keys(counts)), near: sum(NEAR) };
}
