// The conditions of a rule beyond method and tier: its period of validity, the percent of subjects that it applies to,
// and its hosts and routes.
import { hash } from '../hash.ts';
import { type Caller, subjectOf } from './caller.ts';
import type { RequestFacts } from './counted-by.ts';
import type { Rule } from './rule.ts';

export interface Asker {
  readonly caller: Caller;
  readonly nowMs: number;
  readonly facts?: RequestFacts | undefined;
  /** The name of the route that the request takes. */
  readonly routeName?: (() => string | undefined) | undefined;
}

export type Condition = (asker: Asker) => boolean;

/** Undefined if the rule applies to everybody at any time. */
export function conditionOf(rule: Rule): Condition | undefined {
  const isTimed = rule.validFromMs !== null || rule.validUntilMs !== null;
  const isPlaced = rule.hosts.length > 0 || rule.routes.length > 0;
  if (!isTimed && !isPlaced && rule.percent === 100) return undefined;
  return (asker) =>
    isValidAt(rule, asker.nowMs) &&
    isAmong(rule, asker.caller) &&
    (!isPlaced || (isForHost(rule, asker) && isForRoute(rule, asker)));
}

export const isForHost = ({ hosts }: Rule, { facts }: Asker): boolean =>
  hosts.length === 0 || hosts.some((host) => covers(host, facts?.host() ?? ''));

const covers = (host: string, asked: string): boolean =>
  host.startsWith('*.') ? asked.endsWith(host.slice(1)) : asked === host;

export function isForRoute({ routes }: Rule, { routeName }: Asker): boolean {
  if (routes.length === 0) return true;
  const name = routeName?.();
  return name !== undefined && routes.includes(name);
}

/** Whether the rule is in force at that moment. */
export const isValidAt = ({ validFromMs, validUntilMs }: Rule, nowMs: number): boolean =>
  (validFromMs === null || validFromMs <= nowMs) && (validUntilMs === null || nowMs < validUntilMs);

/** Chooses subjects by a hash. A higher percent adds subjects and removes none. Each rule chooses its own subjects. */
export function isAmong({ id, scope, percent }: Rule, caller: Caller): boolean {
  if (percent >= 100) return true;
  const subject = subjectOf(scope, caller);
  return hash(`${id} ${subject.scope}:${subject.id}`) * 100 < percent * 2 ** 32;
}
