// The script's KEYS, ARGV and reply, as lua/counters.lua describes them, from and to what the core speaks.
import type { Answer, Check, Outcome } from '../core/check.ts';
import { type CounterCall, CounterStoreError } from '../core/counter-store.ts';

/** Integers for each check, in the two forms of a reply. */
const LONG = 6;
const SHORT = 2;

export interface ScriptCall {
  readonly keys: string[];
  readonly args: string[];
}

export function toScriptCall({ operation, checks, requestKey, nowMs }: CounterCall): ScriptCall {
  const keys = [...new Set(checks.map(({ key }) => key))];
  const options = checks.map(toOptions);
  // Every argument costs Redis time: columns that say nothing are left out.
  const hasKeys = keys.length > 1;
  const hasOptions = options.some((option) => option !== '');
  let call: string = operation;
  if (hasKeys) call += ' keys';
  if (hasOptions) call += ' options';
  if (nowMs !== undefined) call += ` now=${nowMs}`;
  if (requestKey !== undefined) call += ` memory=${keys.push(requestKey)}`;
  const args = [call];
  checks.forEach(({ key, algorithm, id, limit, windowMs }, i) => {
    if (hasKeys) args.push(String(keys.indexOf(key) + 1));
    args.push(algorithm, id, String(limit), String(windowMs));
    if (hasOptions) args.push(options[i] ?? '');
  });
  return { keys, args };
}

function toOptions(check: Check): string {
  const { cost, extra, leaseId, want, blockMs, countDenied, log, chargedAtMs, relief } = check;
  let options = '';
  if (cost !== 1) options += `cost=${cost} `;
  if (extra !== undefined) options += `extra=${extra} `;
  if (want) options += `want=${want} `;
  if (blockMs) options += `block=${blockMs} `;
  if (countDenied) options += 'denied ';
  if (log) options += 'log ';
  if (chargedAtMs !== undefined) options += `at=${chargedAtMs} `;
  if (relief) options += `relief=${relief.units} since=${relief.sinceMs} full=${relief.fullLimit} `;
  // Last, because an id may hold anything.
  if (leaseId !== undefined) options += `lease=${leaseId}`;
  return options;
}

/** Checks the shape of a reply before anything trusts it. */
export function parseAnswer(reply: unknown, checks: readonly Check[]): Answer {
  const stride = Array.isArray(reply) ? (reply.length - 1) / checks.length : 0;
  if (!Array.isArray(reply) || (stride !== LONG && stride !== SHORT) || !reply.every(Number.isSafeInteger))
    throw new CounterStoreError('bad-reply', `expected ${1 + checks.length * LONG} integers`);
  const [nowMs, ...fields] = reply as [number, ...number[]];
  const fieldsOf = (i: number) => fields.slice(i * stride, (i + 1) * stride);
  return { nowMs, outcomes: checks.map((check, i) => toOutcome(inFull(fieldsOf(i)), check)) };
}

/** The short form says nothing but what is left: all the rest is as plain as can be. */
function inFull(fields: readonly number[]): readonly number[] {
  const [remaining = 0, resetAtMs = 0] = fields;
  return fields.length === SHORT ? [1, remaining, resetAtMs, 0, 0, 0] : fields;
}

function toOutcome(fields: readonly number[], { limit, extra = 0 }: Check): Outcome {
  const [allowed = 0, remaining = 0, resetAtMs = 0, retryMs = 0, granted = 0, delayMs = 0] = fields;
  const plausible =
    (allowed === 0 || allowed === 1) &&
    remaining >= 0 &&
    remaining <= Math.max(limit, extra) &&
    retryMs >= -1;
  if (!plausible) throw new CounterStoreError('bad-reply', 'a field is out of range');
  return {
    allowed: allowed === 1,
    remaining,
    resetAtMs,
    retryAfterMs: retryMs === -1 ? undefined : retryMs,
    granted,
    delayMs,
  };
}
