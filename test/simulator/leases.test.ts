// What a hot subject costs with leases, on virtual time: the same on every machine.
import { expect, it } from 'vitest';
import { playSteadyTraffic } from '../../local/simulator/steady-traffic.ts';

const COMMANDS_PER_CALL = 4;
const LOAD = 1.2;
const WARM = 4;
const JUDGED = 4;

it.each([
  ['200 requests a second at one isolate', 667, 4, 1],
  ['1,000 requests a second at one isolate', 3_333, 4, 1],
  ['200 requests a second at one isolate and a long window', 10_000, 60, 1],
  ['1,000 requests a second at three isolates', 3_333, 4, 3],
  ['200 requests a second at three isolates', 667, 4, 3],
  ['200 requests a second at ten isolates and a long window', 10_000, 60, 10],
])(
  'one subject with %s costs a tenth of a command each, and gets its limit',
  async (_, limit, windowSeconds, isolates) => {
    const play = (windows: number) =>
      playSteadyTraffic({
        ...{ algorithm: 'fixed-window', limit, windowSeconds, windows, roundTripMs: 80 },
        ...{ weights: [1, 0, 0], load: LOAD, isolates },
      });
    const [warm, all] = [await play(WARM), await play(WARM + JUDGED)];
    const perWindow = LOAD * limit;
    const calls = (all.callsPerRequest * (WARM + JUDGED) - warm.callsPerRequest * WARM) * perWindow;
    expect((calls * COMMANDS_PER_CALL) / (JUDGED * perWindow)).toBeLessThanOrEqual(0.1);
    expect(all.utilization).toBeGreaterThanOrEqual(0.98);
    expect(all.beyondWindow).toBe(0);
  },
);
