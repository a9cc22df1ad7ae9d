// Checks the shape of a script's reply before anything trusts it.
import { CounterStoreError } from '../core/counter-store.ts';
import type { Outcome } from '../core/decision.ts';

const STRIDE = 5;

export function parseOutcomes(reply: unknown, count: number): Outcome[] {
  if (!Array.isArray(reply) || reply.length !== count * STRIDE || !reply.every(Number.isSafeInteger))
    throw new CounterStoreError('bad-reply', `expected ${count * STRIDE} integers`);
  return Array.from({ length: count }, (_, i) => toOutcome(reply.slice(i * STRIDE, (i + 1) * STRIDE)));
}

function toOutcome(fields: readonly number[]): Outcome {
  const [allowed = 0, limit = 0, remaining = 0, resetAtMs = 0, retryMs = 0] = fields;
  if ((allowed !== 0 && allowed !== 1) || remaining < 0 || remaining > limit || retryMs < -1)
    throw new CounterStoreError('bad-reply', 'a field is out of range');
  return {
    allowed: allowed === 1,
    limit,
    remaining,
    resetAtMs,
    retryAfterMs: retryMs === -1 ? undefined : retryMs,
  };
}
