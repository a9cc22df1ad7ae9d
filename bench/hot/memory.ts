// Measures the memory of the book of leases. A million subjects lease units, and none of them comes back.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { fixedWindowCheck } from '../../local/fixed-window-check.ts';
import { createLeaseBook } from '../../src/limiter/leases.ts';
import type { LimiterRegion } from '../../src/limiter/region.ts';
import type { BenchOptions, Table } from '../shared/bench.ts';
import { fixed } from '../shared/table.ts';

const SUBJECTS = 1_000_000;
const SAMPLES = 10;
/** Each sample runs the garbage collector three times. The short form takes two: one fills the book, one follows. */
const LEAST_SAMPLES = 2;
const MEGABYTE = 1_024 * 1_024;

export interface LeaseMemory {
  readonly subjects: number;
  /** The first is taken before any subject comes, the others after equal numbers of subjects. */
  readonly heapMb: readonly number[];
  /** Growth after the first sample, which has filled the book. */
  readonly grownMb: number;
}

export function measureMemory(region: LimiterRegion, { scaled }: BenchOptions): LeaseMemory {
  const samples = scaled(SAMPLES, LEAST_SAMPLES);
  const subjects = scaled(SUBJECTS, samples);
  const collect = garbageCollector();
  let nowMs = Date.now();
  const book = createLeaseBook(() => nowMs);
  const heapMb = [heapAfter(collect)];
  for (let i = 1; i <= subjects; i += 1) {
    // Ten thousand subjects a second fill the book before their leases end.
    if (i % 10 === 0) nowMs += 1;
    leaseOnce(book, region, { subject: `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`, nowMs });
    if (i % Math.floor(subjects / samples) === 0) heapMb.push(heapAfter(collect));
  }
  const grownMb = (heapMb.at(-1) ?? Number.NaN) - (heapMb[1] ?? Number.NaN);
  return { subjects, heapMb, grownMb };
}

interface OneLease {
  readonly subject: string;
  readonly nowMs: number;
}

function leaseOnce(
  book: ReturnType<typeof createLeaseBook>,
  region: LimiterRegion,
  { subject, nowMs }: OneLease,
): void {
  const check = { ...CHECK, key: `{${subject}}` };
  const outcome = { ...OUTCOME, resetAtMs: nowMs + check.windowMs, nowMs };
  const moment = { sentAtMs: nowMs, chargedAtMs: nowMs, usedNow: 1, announcement: '' };
  book.note({ region, check, outcome, whole: outcome, ...moment });
  book.takeIdle();
}

const CHECK = fixedWindowCheck(10_000, 3_600);
const OUTCOME = { allowed: true, remaining: 9_899, retryAfterMs: 0, granted: 100, delayMs: 0 };

/** Node has `gc` only if a flag asks for it. */
function garbageCollector(): () => void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect !== 'function') throw new Error('this Node has no garbage collector to call');
  return () => void collect();
}

function heapAfter(collect: () => void): number {
  for (let i = 0; i < 3; i += 1) collect();
  return process.memoryUsage().heapUsed / MEGABYTE;
}

export const memoryTable = ({ subjects, heapMb, grownMb }: LeaseMemory): Table => ({
  title: 'Heap of an isolate whose leases nobody comes back for',
  head: ['subjects', 'heap MB'],
  rows: heapMb.map((mb, i) => [Math.round((i * subjects) / (heapMb.length - 1)), fixed(mb)]),
  notes: [`After the first of the samples that have subjects, it grew by ${fixed(grownMb)} MB.`],
});
