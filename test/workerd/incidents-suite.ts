// What the gateway reports about a degraded decision: in headers if they are switched on, in the log and in
// incidentCounts always. The limiter is a fake that decides on command.
import { describe, expect, it } from 'vitest';
import type { Incident } from '../../src/http/incident-counts.ts';
import { createDecision, createResult } from '../http/headers-harness.ts';
import { type Situation, send } from './gateway-harness.ts';

const counted = createDecision([createResult({})]);
const uncounted = { kind: 'degraded', reason: 'timeout' } as const;
const INCIDENTS: readonly [string, Situation, number, Omit<Incident, 'region'>][] = [
  [
    'let through uncounted',
    { decision: { ...uncounted, allowed: true, fallback: 'open' } },
    200,
    { reason: 'timeout', fallback: 'open' },
  ],
  [
    'let through because of a mistake in Weir',
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
  ['of nobody knows whom', { decision: counted, isUnknown: true }, 200, { reason: 'caller-unknown' }],
  [
    'counted in the next region, by old rules, of nobody knows whom',
    { decision: { ...counted, failedOver: 'timeout', isStale: true }, isUnknown: true },
    200,
    { reason: 'timeout', fallback: 'next-region' },
  ],
];

describe.each(INCIDENTS)('a request that was %s', (_, situation, status, { reason, fallback }) => {
  it('is told so', async () => {
    const { answer, told } = await send(situation);
    expect([answer.status, told]).toEqual([status, [reason, fallback ?? null]]);
  });

  it('is not told so where answers are not to tell, and gets the same answer', async () => {
    const { answer, told } = await send({ ...situation, showsDegraded: false });
    expect([answer.status, told]).toEqual([status, [null, null]]);
  });

  it('is logged and counted once, for the nearest region, whether it is told or not', async () => {
    for (const showsDegraded of [true, false]) {
      const { incidents, tallied } = await send({ ...situation, showsDegraded });
      expect(incidents).toEqual([{ reason, fallback, region: 'us' }]);
      expect(tallied).toEqual([{ reason, fallback, region: 'us', count: 1 }]);
    }
  });
});

it('tells nothing of a request that was decided as it should be', async () => {
  const { told, incidents, tallied } = await send({ decision: counted });
  expect([told, incidents, tallied]).toEqual([[null, null], [], []]);
});

it('logs what a shadow rule would have denied, with the nearest region', async () => {
  const results = [createResult({ name: 'shadow', action: 'log' }, { retryAfterMs: 1 }), createResult({})];
  const { answer, shadows } = await send({ decision: createDecision(results) });
  expect([answer.status, shadows]).toEqual([200, ['shadow in us']]);
});
