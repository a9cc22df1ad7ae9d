import { expect, it } from 'vitest';
import { createTally } from '../../src/http/tally.ts';

it('counts by step, reason and region, and keeps nothing else', () => {
  const tally = createTally();
  const decision = { kind: 'degraded', checks: [{ key: 'secret' }] };
  for (const region of ['us', 'us', 'eu'])
    tally.add({ ...decision, reason: 'timeout', fallback: 'open', region });
  tally.add({ reason: 'timeout', fallback: 'next-region', region: 'us' });
  tally.add({ reason: 'stale-rules', region: 'us' });
  tally.add({ reason: 'stale-rules', region: 'us' });
  expect(tally.list()).toEqual([
    { reason: 'timeout', fallback: 'open', region: 'us', count: 2 },
    { reason: 'timeout', fallback: 'open', region: 'eu', count: 1 },
    { reason: 'timeout', fallback: 'next-region', region: 'us', count: 1 },
    { reason: 'stale-rules', fallback: undefined, region: 'us', count: 2 },
  ]);
});

it('gives a list that later requests do not change', () => {
  const tally = createTally();
  tally.add({ reason: 'timeout', region: 'us' });
  const list = tally.list();
  tally.add({ reason: 'timeout', region: 'us' });
  expect([list[0]?.count, tally.list()[0]?.count]).toEqual([1, 2]);
});
