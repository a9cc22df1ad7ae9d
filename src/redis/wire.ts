// The script's KEYS, ARGV and reply, as lua/counters.lua describes them, from and to what the core speaks.
import type { Answer, Check, Outcome } from '../core/check.ts';
import { type CounterCall, CounterStoreError } from '../core/counter-store.ts';

const STRIDE = 6;

export interface ScriptCall {
  readonly keys: string[];
  readonly args: string[];
}

export function toScriptCall({ operation, checks, requestKey, nowMs }: CounterCall): ScriptCall {
  const keys: string[] = [];
  const numberOf = (key: string) => {
    const known = keys.indexOf(key);
    return known >= 0 ? known + 1 : keys.push(key);
  };
  const checkArgs = checks.flatMap((check) => toArguments(check, numberOf(check.key)));
  const memory = requestKey === undefined ? '' : String(numberOf(requestKey));
  return { keys, args: [operation, nowMs === undefined ? '' : String(nowMs), memory, ...checkArgs] };
}

function toArguments(check: Check, keyNumber: number): string[] {
  return [
    String(keyNumber),
    check.algorithm,
    check.id,
    String(check.limit),
    String(check.windowMs),
    check.leaseId ?? (check.extra === undefined ? '' : String(check.extra)),
    String(check.cost),
    toOptions(check),
  ];
}

function toOptions({ want, blockMs, countDenied, log, chargedAtMs }: Check): string {
  if (!want && !blockMs && !countDenied && !log && chargedAtMs === undefined) return '';
  const options = [
    want ? `want=${want}` : '',
    blockMs ? `block=${blockMs}` : '',
    countDenied ? 'denied' : '',
    log ? 'log' : '',
    chargedAtMs === undefined ? '' : `at=${chargedAtMs}`,
  ];
  return options.filter((option) => option !== '').join(' ');
}

/** Checks the shape of a reply before anything trusts it. */
export function parseAnswer(reply: unknown, checks: readonly Check[]): Answer {
  if (
    !Array.isArray(reply) ||
    reply.length !== 1 + checks.length * STRIDE ||
    !reply.every(Number.isSafeInteger)
  )
    throw new CounterStoreError('bad-reply', `expected ${1 + checks.length * STRIDE} integers`);
  const [nowMs = 0, ...fields] = reply as number[];
  return {
    nowMs,
    outcomes: checks.map((check, i) => toOutcome(fields.slice(i * STRIDE, (i + 1) * STRIDE), check)),
  };
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
