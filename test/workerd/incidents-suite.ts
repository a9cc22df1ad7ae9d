// What the gateway reports about a degraded decision: in headers if they are switched on, in the log and in
// incidentCounts always. The limiter is a fake that decides on command.
import { describe, expect, it } from 'vitest';
import type { Incident } from '../../src/core/decision.ts';
import { createDecision, createResult } from '../http/headers-harness.ts';
import { type Situation, send } from './gateway-harness.ts';

const counted = createDecision([createResult({})]);
const uncounted = { kind: 'degraded', reason: 'timeout' } as const;
const INCIDENTS: readonly [string, Situation, number, Incident][] = [
  [
    'let through uncounted',
    { decision: { ...uncounted, allowed: true, fallback: 'open' } },
    200,
    { reason: 'timeout', fallback: 'open' },
  ],
  [
    'let through because of a bug in Weir',
    { decision: { ...uncounted, reason: 'internal-error', allowed: true, fallback: 'open' } },
    200,
    { reason: 'internal-error', fallback: 'open' },
  ],
  [
    'refused because it cannot be counted',
    { decision: { ...uncounted, allowed: false, fallback: 'closed' } },
    503,
    { reason: 'timeout', fallback: 'closed' },
  ],
  [
    'counted in the next region',
    { decision: { ...counted, failedOver: 'breaker-open' as const } },
    200,
    { reason: 'breaker-open', fallback: 'next-region' },
  ],
  ['decided by old rules', { decision: { ...counted, isStale: true } }, 200, { reason: 'stale-rules' }],
  ['sent by an unknown caller', { decision: counted, isUnknown: true }, 200, { reason: 'caller-unknown' }],
  [
    'counted in the next region, by old rules, for an unknown caller',
    { decision: { ...counted, failedOver: 'timeout', isStale: true }, isUnknown: true },
    200,
    { reason: 'timeout', fallback: 'next-region' },
  ],
];

describe.each(INCIDENTS)('a request that was %s', (_, situation, status, { reason, fallback }) => {
  it('has headers with the reason and the fallback', async () => {
    const { answer, told } = await send(situation);
    expect([answer.status, told]).toEqual([status, [reason, fallback ?? null]]);
  });

  it('has no such headers if they are switched off, and is otherwise answered the same', async () => {
    const seen = async (showsDegraded: boolean) => {
      const { answer, body, told } = await send({ ...situation, showsDegraded });
      const others = [...answer.headers].filter(([name]) => !/^x-weir-(degraded|fallback)$/.test(name));
      return { told, others, body, status: answer.status };
    };
    const shown = await seen(true);
    expect(await seen(false)).toEqual({ ...shown, status, told: [null, null] });
  });

  it('is logged and counted once, for the nearest region, with and without these headers', async () => {
    for (const showsDegraded of [true, false]) {
      const { incidents, tallied } = await send({ ...situation, showsDegraded });
      expect(incidents).toEqual([{ reason, fallback, region: 'us' }]);
      expect(tallied).toEqual([{ reason, fallback, region: 'us', count: 1 }]);
    }
  });
});

it('a request that was decided as usual is not reported', async () => {
  const { told, incidents, tallied } = await send({ decision: counted });
  expect([told, incidents, tallied]).toEqual([[null, null], [], []]);
});

it('a denial of a shadow rule is logged, with the nearest region', async () => {
  const results = [createResult({ name: 'shadow', action: 'log' }, { retryAfterMs: 1 }), createResult({})];
  const { answer, shadows } = await send({ decision: createDecision(results) });
  expect([answer.status, shadows]).toEqual([200, ['shadow in us']]);
});
