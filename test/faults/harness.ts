// A whole Weir with a rule for each `onUnavailable`, a load that meets all of them, and a way back to health.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { type IsolateName, REGIONS, type Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';
import { type Answer, type Ask, type Client, type Load, openClient } from './client.ts';

/** Large enough that no healthy region misses its part of it on a busy machine: a quarter, for the second one asked. */
export const DEADLINE_MS = 3_000;
/** The limit of every rule here that a test exhausts, and each region's part of it. */
export const LIMIT = 6;
export const PART = LIMIT / REGIONS.length;
export const KINDS = ['open', 'local', 'closed', 'roomy'] as const;
export type Kind = (typeof KINDS)[number];

const CLEAN_ROUNDS = 10;
const RECOVERY_MS = 3_000;
const GIVE_UP_MS = 60_000;
/** While a breaker is open, asking all the time would only keep the machine busy. */
const PAUSE_MS = 50;

export interface FaultStack extends AsyncDisposable {
  readonly weir: Weir;
  readonly client: Client;
}

export async function startFaultStack(variables: Record<string, string> = {}): Promise<FaultStack> {
  await using cleanup = new AsyncDisposableStack();
  const weir = cleanup.use(await startWeir({ DEADLINE_MS: String(DEADLINE_MS), ...variables }));
  const client = cleanup.use(openClient(weir));
  const owned = cleanup.move();
  return { weir, client, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/**
 * By IP, for a day, so that no window ends while a test runs. Without spill, so that each region admits exactly its
 * part.
 */
export const ruleFor = (resource: string, limit = LIMIT) => ({
  name: resource.slice(1),
  resource,
  scope: 'ip',
  algorithm: 'fixed-window',
  limit,
  windowSeconds: 86_400,
  spill: false,
});

export const addRule = (weir: Weir, rule: object) =>
  weir.admin<{ id: string }>('/rules', { method: 'POST', body: rule });

export async function addRuleOfEachKind(weir: Weir): Promise<void> {
  for (const kind of ['open', 'local', 'closed'] as const)
    await addRule(weir, { ...ruleFor(`/${kind}`), onUnavailable: kind });
  await addRule(weir, ruleFor('/roomy', 1_000_000));
}

/** Each isolate in turn sends one request of each kind. All requests of a kind have one subject. */
export function mixedLoad(
  subjects: Readonly<Record<Kind, string>>,
  isolates: readonly IsolateName[],
): (i: number) => Ask {
  return (i) => {
    const kind = KINDS[Math.floor(i / isolates.length) % KINDS.length] as Kind;
    const isolate = isolates[i % isolates.length] as IsolateName;
    return { path: `/${kind}`, isolate, ip: subjects[kind] };
  };
}

export interface Recovering {
  readonly client: Client;
  readonly isolates: readonly IsolateName[];
  readonly regions?: readonly string[];
}

/** How long it took until the first answer without a failure, and the slowest round of questions. */
export interface Recovery {
  readonly tookMs: number;
  readonly roundMs: number;
}

/** A busy machine takes its time for the rounds in which a breaker is probed. */
export const expectSoon = ({ tookMs, roundMs }: Recovery) =>
  expect(tookMs).toBeLessThanOrEqual(RECOVERY_MS + 5 * roundMs);

/** Asks every region through every isolate until ten answers in a row of each report no failure. */
export async function recover({ client, isolates, regions = REGIONS }: Recovering): Promise<Recovery> {
  const places = isolates.flatMap((isolate) => regions.map((region) => ({ isolate, region })));
  const startedAtMs = Date.now();
  let cleanSinceMs = startedAtMs;
  let roundMs = 0;
  for (let clean = 0; clean < CLEAN_ROUNDS; ) {
    const roundAtMs = Date.now();
    if (roundAtMs > startedAtMs + GIVE_UP_MS) throw new Error('does not recover');
    const answers = await Promise.all(places.map((place) => client.ask({ path: '/roomy', ...place })));
    const isClean = answers.every(({ status, degraded }) => status === 200 && degraded === undefined);
    if (isClean && clean === 0) cleanSinceMs = roundAtMs;
    clean = isClean ? clean + 1 : 0;
    roundMs = Math.max(roundMs, Date.now() - roundAtMs);
    if (!isClean) await sleep(PAUSE_MS);
  }
  return { tookMs: cleanSinceMs - startedAtMs, roundMs };
}

/**
 * A request that waits for a healthy region has half of the deadline left. If the machine stands still for long, all
 * regions seem to have failed, and isolates rightly decide alone. That is another outage than the one under test.
 */
const STANDSTILL_MS = DEADLINE_MS / 4;
const MAX_TRIES = 8;

/** Repeats the load if the machine stood still meanwhile. Requests that no fault can touch show that. */
export async function playAgainAfterStandstill<T extends Load>(
  play: () => Promise<T>,
  recovered: () => Promise<unknown>,
): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    const seen = await play();
    if (seen.controlMs < STANDSTILL_MS || tries === MAX_TRIES) return seen;
    console.log(`again, because the machine stood still for ${Math.round(seen.controlMs)} ms`);
    await recovered();
  }
}

/**
 * How late the slowest answer may be. At each step it waits for the machine once: not longer than the slowest of the
 * same load without a fault, and of the control requests sent along.
 */
export const latestMs = (seen: Load, healthy: Load): number =>
  DEADLINE_MS + REGIONS.length * (healthy.slowestMs + seen.controlMs);

export const ofPath = (answers: readonly Answer[], path: string) =>
  answers.filter(({ ask }) => ask.path === path);
export const admitted = (answers: readonly Answer[]) => answers.filter(({ status }) => status === 200).length;

/** What an isolate reports about itself. */
export interface Health {
  readonly status: string;
  readonly isolate: {
    readonly breakers: Readonly<Record<string, string>>;
    readonly isolates: Readonly<Record<string, number>>;
  };
}

export const healthOf = (weir: Weir, isolate: IsolateName): Promise<Health> => weir.health(isolate);
