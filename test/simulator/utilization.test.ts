// How much of a limit callers can use at real distances, on virtual time: checks the floors in docs/regions.md.
import { describe, expect, it } from 'vitest';
import { SIMULATED } from '../../local/simulator/rule-sets.ts';
import { playSteadyTraffic, type SteadyTraffic } from '../../local/simulator/steady-traffic.ts';
import { isLong } from '../rounds.ts';

const SMALL = { limit: 6, windowSeconds: 1, windows: 30 };
const SLOW = { limit: 30, windowSeconds: 60, windows: 4 };
const LARGE = { limit: 300, windowSeconds: 15, windows: 2 };
/** The round trip between two regions. */
const DISTANCES = isLong ? [80, 200] : [200];
const TRAFFICS = {
  'one region': [1, 0, 0],
  'all regions alike': [1, 1, 1],
  'mostly one region': [80, 15, 5],
};

/** The worst of all distances. */
async function worst(traffic: Omit<SteadyTraffic, 'roundTripMs'>) {
  const uses = [];
  for (const roundTripMs of DISTANCES) uses.push(await playSteadyTraffic({ ...traffic, roundTripMs }));
  return {
    utilization: Math.min(...uses.map(({ utilization }) => utilization)),
    farCalls: Math.max(...uses.map(({ farCallsPerRequest }) => farCallsPerRequest)),
  };
}

describe.each(SIMULATED)('a caller that is counted by %s', (algorithm) => {
  it.each([
    ['6 in a second', SMALL],
    ['30 in a minute', SLOW],
    ['300 in 15 s', LARGE],
  ])('uses nearly all of %s from one region, almost without far calls', async (_, size) => {
    const { utilization, farCalls } = await worst({ algorithm, ...size, weights: TRAFFICS['one region'] });
    expect(utilization).toBeGreaterThanOrEqual(0.99);
    expect(farCalls).toBeLessThanOrEqual(0.02);
  });

  it.each([
    ['all regions alike', '6 in a second', SMALL, 0.85],
    ['mostly one region', '6 in a second', SMALL, 0.85],
    ['all regions alike', '30 in a minute', SLOW, 0.98],
    ['mostly one region', '30 in a minute', SLOW, 0.98],
    ['all regions alike', '300 in 15 s', LARGE, 0.98],
    ['mostly one region', '300 in 15 s', LARGE, 0.98],
  ] as const)('in %s, uses most of %s', async (traffic, _, size, least) => {
    const { utilization } = await worst({ algorithm, ...size, weights: TRAFFICS[traffic] });
    expect(utilization).toBeGreaterThanOrEqual(least);
  });
});
