// One outage: steady load on all isolates before, during and after a fault, until every isolate has recovered.
import { setTimeout as sleep } from 'node:timers/promises';
import { healRegion, type RegionFault } from '../../local/fault-catalogue.ts';
import type { LocalRegion } from '../../local/regions.ts';
import { steadyLoad } from '../../local/steady-load.ts';
import { freshIp } from '../../local/weir.ts';
import { ADMIN_TOKEN } from '../gateway/arena.ts';
import type { BenchOptions } from '../shared/bench.ts';
import { type Arena, IMPATIENT_PEER, ISOLATES, PEERS } from './arena.ts';
import { ask, isClean, type Reply } from './ask.ts';
import { DEADLINE_MS } from './rules.ts';

export const SCOPES = ['one', 'all'] as const;
export type OutageScope = (typeof SCOPES)[number];

/** In the phase `fault`, the measured subjects send. The whole phase lies within the fault. */
export type Phase = 'before' | 'beginning' | 'fault' | 'ending' | 'after';
/** The isolate alone answers `control`, so its times show how busy the machine is. */
export type Kind = 'roomy' | 'open' | 'local' | 'control';

export interface Sample extends Reply {
  readonly worker: string;
  readonly kind: Kind;
  readonly subject: string;
  readonly phase: Phase;
}

export interface OutageSamples {
  readonly samples: readonly Sample[];
  /** Whether every isolate had recovered in every region, so that the next outage starts from a healthy state. */
  readonly isSettled: boolean;
  /** The time by the clock of the samples. */
  readonly endedAtMs: number;
}

const PER_SECOND = 40;
const BEFORE_MS = 400;
const FAULT_MS = 1_400;
/** The short form sends a few requests of every kind. */
const LEAST = { perSecond: 20, ms: 200 };
const GIVE_UP_MS = 10_000;
const COUNTED_MS = 90_000;
export const CLEAN_IN_A_ROW = 10;
const SUBJECTS_OF_A_KIND = 2;

/** The peer has one Redis. The bench measures the peer where that Redis fails. */
const workersIn = (scope: OutageScope) =>
  scope === 'one' ? [...ISOLATES, PEERS[0], IMPATIENT_PEER] : ISOLATES;

export async function sufferOutage(
  arena: Arena,
  fault: RegionFault,
  scope: OutageScope,
  { scaled }: BenchOptions,
): Promise<OutageSamples> {
  const regions = scope === 'one' ? arena.stack.regions.slice(0, 1) : arena.stack.regions;
  const samples: Sample[] = [];
  const workers = workersIn(scope);
  subjects.clear();
  let phase: Phase = 'before';
  const enough = new AbortController();
  const perSecond = scaled(PER_SECOND, LEAST.perSecond);
  const load = { perSecond, signal: enough.signal, samples, phaseNow: () => phase };
  const loads = [
    ...workers.map((worker) => sendSteadily(arena, { ...load, worker, next: nextOf(worker) })),
    ...ISOLATES.map((worker) => sendSteadily(arena, { ...load, worker, next: control })),
  ];
  let endedAtMs = Number.NaN;
  try {
    await sleep(scaled(BEFORE_MS, LEAST.ms));
    phase = 'beginning';
    await Promise.all(regions.map((region) => fault.begin(region)));
    phase = 'fault';
    await sleep(scaled(FAULT_MS, LEAST.ms));
    phase = 'ending';
    // Requests that still wait for the faulty region must not get its answer.
    await sleep(DEADLINE_MS);
  } finally {
    await healAll(regions);
    endedAtMs = performance.now();
    phase = 'after';
  }
  await untilAll(workers, (worker) => recoveredAt(samples, worker) !== undefined);
  enough.abort();
  await Promise.all(loads);
  return { samples, endedAtMs, isSettled: await settle(arena) };
}

const healAll = (regions: readonly LocalRegion[]) => Promise.all(regions.map(healRegion));

type Next = (i: number, phase: Phase) => { readonly kind: Kind; readonly subject: string };

interface Sending {
  readonly perSecond: number;
  readonly worker: string;
  readonly next: Next;
  readonly phaseNow: () => Phase;
  readonly samples: Sample[];
  readonly signal: AbortSignal;
}

async function sendSteadily(arena: Arena, sending: Sending): Promise<void> {
  const { perSecond, worker, next, phaseNow, samples, signal } = sending;
  const send = async (i: number) => {
    const phase = phaseNow();
    const { kind, subject } = next(i, phase);
    const path = kind === 'control' ? '/_weir/nothing-here' : `/${kind}`;
    const reply = await ask(arena, { worker, path, ip: subject });
    const isCaught = phase === 'before' && phaseNow() !== 'before';
    samples.push({ ...reply, worker, kind, subject, phase: isCaught ? 'beginning' : phase });
  };
  await steadyLoad({ perSecond, ms: 2 * GIVE_UP_MS, send, signal });
}

const subjects = new Map<string, string>();
/** The same name has the same address within an outage, and another one in the next outage. */
const subjectOf = (name: string) => {
  const known = subjects.get(name) ?? freshIp();
  subjects.set(name, known);
  return known;
};

/** Weir's subjects are spread over its isolates. Each peer has its own subjects. */
function nextOf(worker: string): Next {
  const isWeir = (ISOLATES as readonly string[]).includes(worker);
  const kinds: readonly Kind[] = isWeir ? ['roomy', 'open', 'local'] : ['roomy', 'open'];
  return (i, phase) => {
    const kind = kinds[i % kinds.length] ?? 'roomy';
    if (kind === 'roomy' || phase !== 'fault') return { kind: 'roomy', subject: subjectOf(worker) };
    const number = Math.floor(i / kinds.length) % SUBJECTS_OF_A_KIND;
    return { kind, subject: subjectOf(`${isWeir ? 'weir' : worker} ${kind} ${number}`) };
  };
}

const control: Next = () => ({ kind: 'control', subject: '192.0.2.1' });

/** When the first of ten good answers in a row came. Undefined if there were none. */
export function recoveredAt(samples: readonly Sample[], worker: string): number | undefined {
  const after = samples.filter(
    (sample) => sample.worker === worker && sample.phase === 'after' && sample.kind !== 'control',
  );
  after.sort((a, b) => a.sentAtMs - b.sentAtMs);
  const firstOfRow = after.findIndex((_, i) => {
    const row = after.slice(i, i + CLEAN_IN_A_ROW);
    return row.length === CLEAN_IN_A_ROW && row.every(isClean);
  });
  return after[firstOfRow]?.answeredAtMs;
}

async function untilAll(workers: readonly string[], isTrueOf: (worker: string) => boolean): Promise<void> {
  const giveUpAtMs = performance.now() + GIVE_UP_MS;
  while (performance.now() < giveUpAtMs && !workers.every(isTrueOf)) await sleep(20);
}

/**
 * Waits until every isolate asks all regions again, so that each outage starts with closed breakers. Resolves to
 * whether that happened before the bench gave up.
 */
export async function settle(arena: Arena): Promise<boolean> {
  const places = ISOLATES.flatMap((worker) =>
    arena.stack.regions.map(({ name: region }) => ({ worker, region })),
  );
  const isSettled = async (place: (typeof places)[number]) => {
    const replies: Reply[] = [];
    for (let i = 0; i < CLEAN_IN_A_ROW; i += 1) replies.push(await ask(arena, { path: '/roomy', ...place }));
    return replies.every(isClean);
  };
  const giveUpAtMs = performance.now() + GIVE_UP_MS;
  while (performance.now() < giveUpAtMs)
    if ((await Promise.all(places.map(isSettled))).every(Boolean)) return true;
  return false;
}

/**
 * Isolates learn their number once a minute. Until all know it, `local` divides by another number. Resolves to whether
 * they learned it before the bench gave up.
 */
export async function untilCounted(arena: Arena, { scaled }: BenchOptions): Promise<boolean> {
  const giveUpAtMs = performance.now() + scaled(COUNTED_MS);
  const isCounted = async (worker: string) => {
    await ask(arena, { worker, path: '/roomy' });
    return (await knownIsolates(arena, worker)) === ISOLATES.length;
  };
  while (performance.now() < giveUpAtMs) {
    if ((await Promise.all(ISOLATES.map(isCounted))).every(Boolean)) return true;
    await sleep(500);
  }
  return false;
}

async function knownIsolates({ workerd, pool }: Arena, worker: string): Promise<number | undefined> {
  const { body } = await pool.request(`${workerd.urls[worker]}/_weir/health`, {
    // Another address each time, because one address may not ask that often.
    headers: { Authorization: `Bearer ${ADMIN_TOKEN}`, 'CF-Connecting-IP': freshIp() },
  });
  const { isolate } = JSON.parse(body) as { isolate?: { isolates: Record<string, number> } };
  return isolate?.isolates['us'];
}
