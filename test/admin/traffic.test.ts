// What the page's overview reports about all isolates.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readFleet } from '../../src/telemetry/fleet.ts';
import { type Admin, startAdmin, TOKENS } from './harness.ts';

const NOW_MS = Date.UTC(2030, 0, 31, 12);
const report = { atMs: NOW_MS - 1_000, breakers: { us: 'closed', eu: 'open' }, rulesAgeMs: 2_000 };
const found = (sums: Readonly<Record<string, number>>) => ({
  flush: async () => [],
  read: async () => ({
    sums: new Map(Object.entries(sums)),
    reports: new Map([['one', report]]),
    isolateCount: 1,
    announced: `12.${'a'.repeat(16)}.${'b'.repeat(16)}`,
  }),
});
const gone = { flush: async () => [], read: () => Promise.reject(new Error('gone')) };

let admin: Admin;
beforeAll(async () => {
  const us = found({
    'requests\tus\tdefault\tadmitted': 5,
    'requests\tus\tother\tadmitted': 2,
    'requests\tus\tdefault\tdenied': 3,
    'decision\tb0': 4,
    'decision\tb2': 1,
    'checks\tlogins\tdenied': 3,
    'fallback\tlocal\ttimeout': 1,
  });
  // A request nearest to `us` whose sums went to another region.
  const ap = found({ 'requests\tus\tdefault\tadmitted': 1, 'decision\tb0': 1 });
  const stores = new Map(Object.entries({ us, eu: gone, ap }));
  admin = await startAdmin({
    now: () => NOW_MS,
    fleet: () => readFleet(stores, { nowMs: NOW_MS, deadlineMs: 250, signal: AbortSignal.timeout(1_000) }),
  });
});
afterAll(() => admin[Symbol.asyncDispose]());

it('the overview adds up the sums of the regions, and names the region that does not answer', async () => {
  const response = await admin.call('/traffic', { token: TOKENS.read.token });
  const { regions, decision, ...rest } = (await response.json()) as {
    regions: readonly { name: string }[];
    decision: { boundsMs: number[]; counts: number[] };
  };
  const breakers = (open: number) => ({ closed: 1 - open, 'half-open': 0, open });
  expect(regions).toEqual([
    {
      name: 'us',
      up: true,
      isolates: 1,
      breakers: breakers(0),
      publication: 12,
      requests: { admitted: 8, denied: 3 },
    },
    { name: 'eu', up: false, isolates: 0, breakers: breakers(1), publication: null, requests: {} },
    {
      name: 'ap',
      up: true,
      isolates: 1,
      // No isolate has reported about this region.
      breakers: {},
      publication: 12,
      requests: {},
    },
  ]);
  expect(decision.counts.slice(0, 4)).toEqual([5, 0, 1, 0]);
  expect(decision.counts).toHaveLength(decision.boundsMs.length + 1);
  expect(rest).toEqual({
    at: '2030-01-31T12:00:00.000Z',
    fallbacks: { timeout: 1 },
    rules: { logins: { denied: 3 } },
    rulesAgeSeconds: 2,
  });
});
