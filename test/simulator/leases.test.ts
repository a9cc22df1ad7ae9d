// What a hot subject costs with leases, on virtual time: the same on every machine.
import { expect, it } from 'vitest';
import { playSteadyTraffic } from '../../local/simulator/steady-traffic.ts';

const COMMANDS_PER_CALL = 4;
const LOAD = 1.2;
/** The first windows, in which isolates learn their pace and the region becomes the owner of the counter. */
const WARM_MS = 16_000;
const JUDGED = 2;

it.each([
  ['200 requests a second at one isolate', 667, 4, 1],
  ['1,000 requests a second at one isolate', 3_333, 4, 1],
  ['200 requests a second at one isolate and a long window', 10_000, 60, 1],
  ['1,000 requests a second at three isolates', 3_333, 4, 3],
  ['200 requests a second at three isolates', 667, 4, 3],
  ['200 requests a second at ten isolates and a long window', 10_000, 60, 10],
])(
  'one subject with %s costs at most a tenth of a command per request, and gets its limit',
  async (_, limit, windowSeconds, isolates) => {
    const play = (windows: number) =>
      playSteadyTraffic({
        ...{ algorithm: 'fixed-window', limit, windowSeconds, windows, roundTripMs: 80 },
        ...{ weights: [1, 0, 0], load: LOAD, isolates },
      });
    const first = Math.ceil(WARM_MS / (windowSeconds * 1_000));
    const [warm, all] = [await play(first), await play(first + JUDGED)];
    const perWindow = LOAD * limit;
    const calls = (all.callsPerRequest * (first + JUDGED) - warm.callsPerRequest * first) * perWindow;
    expect((calls * COMMANDS_PER_CALL) / (JUDGED * perWindow)).toBeLessThanOrEqual(0.1);
    expect(all.utilization).toBeGreaterThanOrEqual(0.98);
    expect(all.beyondWindow).toBe(0);
  },
);
