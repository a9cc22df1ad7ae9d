// Faults that come and go at random in every part of the stack. Each part has its own plan, drawn from one seed.
import { setTimeout as sleep } from 'node:timers/promises';
import { healRegion, type RegionFaultName, regionFaults } from '../../local/fault-catalogue.ts';
import type { KvFaults } from '../../local/kv-faults/faults.ts';
import { REGIONS, type Weir } from '../../local/weir.ts';

const FAULT_MS = { min: 200, max: 2_500 };
const PAUSE_MS = { min: 200, max: 3_000 };
/** After these, Redis comes back without its counts. */
const FORGETFUL: readonly RegionFaultName[] = ['redis-killed', 'redis-restarted-empty'];
const KV_FAULTS: readonly KvFaults[] = [
  { read: 'throw' },
  { read: 'hang' },
  { read: 'null' },
  { read: 'garbage' },
  { write: 'throw' },
];
const POSTGRES_FAULTS = [{ refuse: true }, { hang: true }, { status: 500 }, { garbage: true }];

export interface RandomFault {
  readonly part: string;
  readonly name: string;
  readonly beganAtMs: number;
  readonly endedAtMs: number;
  readonly isForgetful: boolean;
}

export interface RandomFaultOptions {
  readonly weir: Weir;
  readonly seed: number;
  readonly ms: number;
  readonly slowMs: number;
}

interface Part {
  readonly name: string;
  readonly faults: readonly { readonly name: string; begin(): Promise<void> }[];
  heal(): Promise<void>;
}

/** Resolves when all parts are healthy again, to all faults that have happened. */
export async function randomFaults(options: RandomFaultOptions): Promise<RandomFault[]> {
  const untilMs = Date.now() + options.ms;
  const parts = partsOf(options);
  const all = await Promise.all(parts.map((part, i) => breakPart(part, randomOf(options.seed + i), untilMs)));
  return all.flat();
}

async function breakPart(part: Part, random: () => number, untilMs: number): Promise<RandomFault[]> {
  const between = ({ min, max }: typeof FAULT_MS) => min + random() * (max - min);
  const happened: RandomFault[] = [];
  for (;;) {
    // Drawn in one order, however long each fault takes, so that the same seed has the same plan.
    const [pauseMs, lastsMs] = [between(PAUSE_MS), between(FAULT_MS)];
    const fault = part.faults[Math.floor(random() * part.faults.length)] as Part['faults'][number];
    if (Date.now() + pauseMs + lastsMs > untilMs) return happened;
    await sleep(pauseMs);
    const beganAtMs = Date.now();
    try {
      await fault.begin();
      await sleep(lastsMs);
    } finally {
      await part.heal();
    }
    const isForgetful = FORGETFUL.some((name) => name === fault.name);
    happened.push({ part: part.name, name: fault.name, beganAtMs, endedAtMs: Date.now(), isForgetful });
  }
}

function partsOf({ weir, slowMs }: RandomFaultOptions): Part[] {
  const { kvFaults } = weir.isolates;
  const { neon } = weir.stack;
  const regions = REGIONS.map((name): Part => {
    const region = weir.region(name);
    const faults = regionFaults({ slowMs }).map((fault) => ({
      name: fault.name,
      begin: () => fault.begin(region),
    }));
    return { name, faults, heal: () => healRegion(region) };
  });
  const kv = KV_FAULTS.map((fault) => ({ name: JSON.stringify(fault), begin: () => kvFaults.set(fault) }));
  const postgres = POSTGRES_FAULTS.map((fault) => ({
    name: JSON.stringify(fault),
    begin: () => neon.faults.set(fault),
  }));
  return [
    ...regions,
    { name: 'kv', faults: kv, heal: () => kvFaults.clear() },
    { name: 'postgres', faults: postgres, heal: () => neon.faults.clear() },
  ];
}

/** mulberry32: small, and good enough to break things. From 0 to 1. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
