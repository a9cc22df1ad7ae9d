// Turns a gateway's faults on and off while it runs, including its port. Draws which of them hit a request.
import { drawFaults, drawLatencyMs, type FaultRequest, type Faults, parseFaults } from './faults.ts';

export interface GatewayFaults {
  get(): Faults;
  /** Replaces all faults set before. Rejects bad input and names the field. */
  set(faults: FaultRequest): Promise<void>;
  clear(): Promise<void>;
  flushScripts(): Promise<void>;
}

export interface FaultSwitch extends GatewayFaults {
  /** The faults that hit the next request, with its own latency. */
  draw(): Faults & { latencyMs: number };
  /** Resolves when no change is under way. */
  settled(): Promise<void>;
}

export interface FaultSwitchOptions {
  openPort(): Promise<void>;
  closePort(): Promise<void>;
  flushScripts(): Promise<void>;
  random(): number;
}

export function createFaultSwitch(options: FaultSwitchOptions): FaultSwitch {
  const { openPort, closePort, flushScripts, random } = options;
  let active: Faults = {};
  let lastChange = Promise.resolve();

  const apply = async ({ flushScripts: flush, ...wanted }: FaultRequest) => {
    active = wanted;
    if (flush) await flushScripts();
    await (wanted.refuse ? closePort() : openPort());
  };
  // Changes run one after the other, because closing and opening the port take time.
  const change = (wanted: FaultRequest) => {
    const done = lastChange.then(() => apply(wanted));
    lastChange = done.catch(() => {});
    return done;
  };
  const draw = () => {
    const hit = drawFaults(active, random);
    return { ...hit, latencyMs: drawLatencyMs(hit, random) };
  };
  return {
    get: () => active,
    set: async (wanted) => change(parseFaults(wanted)),
    clear: () => change({}),
    flushScripts,
    draw,
    settled: () => lastChange,
  };
}
