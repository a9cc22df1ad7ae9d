import { expect, it } from 'vitest';
import { createIncidentCounts } from '../../src/http/log.ts';

it('incidents are counted by step, reason and region, and nothing else is kept', () => {
  const incidentCounts = createIncidentCounts();
  const decision = { kind: 'degraded', checks: [{ key: 'secret' }] };
  for (const region of ['us', 'us', 'eu'])
    incidentCounts.add({ ...decision, reason: 'timeout', fallback: 'open', region });
  incidentCounts.add({ reason: 'timeout', fallback: 'next-region', region: 'us' });
  incidentCounts.add({ reason: 'stale-rules', region: 'us' });
  incidentCounts.add({ reason: 'stale-rules', region: 'us' });
  expect(incidentCounts.list()).toEqual([
    { reason: 'timeout', fallback: 'open', region: 'us', count: 2 },
    { reason: 'timeout', fallback: 'open', region: 'eu', count: 1 },
    { reason: 'timeout', fallback: 'next-region', region: 'us', count: 1 },
    { reason: 'stale-rules', fallback: undefined, region: 'us', count: 2 },
  ]);
});

it('a list of counts does not change with later requests', () => {
  const incidentCounts = createIncidentCounts();
  incidentCounts.add({ reason: 'timeout', region: 'us' });
  const list = incidentCounts.list();
  incidentCounts.add({ reason: 'timeout', region: 'us' });
  expect([list[0]?.count, incidentCounts.list()[0]?.count]).toEqual([1, 2]);
});
