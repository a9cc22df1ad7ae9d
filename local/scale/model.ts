// Computes what each resource needs at a given number of requests a second, from the costs of costs.ts and the leases
// that the limiter asks for.
import { wantOf } from '../../src/limiter/lease-terms.ts';
import { fixedWindowCheck } from '../fixed-window-check.ts';
import {
  BYTES_PER_SUBJECT,
  COMMANDS_PER_CALL,
  COMMANDS_PER_ISOLATE_SECOND,
  DOLLARS_PER_MILLION_COMMANDS,
  DOLLARS_PER_MILLION_REQUESTS,
  MAX_ISOLATES,
  REDIS_MICROS_PER_CALL,
  REQUESTS_PER_ISOLATE,
  SECONDS_PER_MONTH,
} from './costs.ts';
import type { Band } from './zipf.ts';

export interface Deployment {
  readonly perSecond: number;
  readonly regions: number;
  /** The subjects: each caller, or everybody together. */
  readonly bands: readonly Band[];
  readonly isLeased: boolean;
}

export interface Needs {
  readonly isolates: number;
  /** Commands a second in each region. */
  readonly commands: number;
  readonly commandsPerRequest: number;
  /** Calls a second to the busiest key of one region. */
  readonly hottestKey: number;
  /** The load of the one thread that runs scripts, in each region. */
  readonly redisLoad: number;
  /** Memory for the counters of one window, in each region. */
  readonly memoryMb: number;
  readonly dollarsPerMonth: number;
}

const WINDOW_SECONDS = 60;
const LEAST_ISOLATES = 3;
const MEGABYTE = 1_024 * 1_024;
const MILLION = 1_000_000;

export function needsOf({ perSecond, regions, bands, isLeased }: Deployment): Needs {
  const wanted = Math.ceil(perSecond / REQUESTS_PER_ISOLATE);
  const isolates = Math.min(MAX_ISOLATES, Math.max(wanted, LEAST_ISOLATES * regions));
  const here = isolates / regions;
  // Requests reach all isolates evenly, which is the worst case for leases.
  const callsOf = ({ part }: Band) => here * callsPerSecond((perSecond * part) / isolates, isLeased);
  const calls = bands.reduce((sum, band) => sum + band.subjects * callsOf(band), 0);
  const commands = calls * COMMANDS_PER_CALL + here * COMMANDS_PER_ISOLATE_SECOND;
  const commandsPerRequest = (commands * regions) / perSecond;
  const inWindow = bands.reduce((sum, band) => sum + seenInWindow(band, perSecond / regions), 0);
  const dollars = DOLLARS_PER_MILLION_REQUESTS + commandsPerRequest * DOLLARS_PER_MILLION_COMMANDS;
  return {
    isolates,
    commands,
    commandsPerRequest,
    hottestKey: Math.max(...bands.map(callsOf)),
    redisLoad: (calls * REDIS_MICROS_PER_CALL) / MILLION,
    memoryMb: (inWindow * BYTES_PER_SUBJECT) / MEGABYTE,
    dollarsPerMonth: (perSecond * SECONDS_PER_MONTH * dollars) / MILLION,
  };
}

/** Calls of one isolate for one subject: one for each request, or one for each lease. */
export function callsPerSecond(perSecond: number, isLeased: boolean): number {
  const unitsPerMs = perSecond / 1_000;
  const pace = {
    unitsPerMs,
    unitsPerMsBefore: unitsPerMs,
    remaining: ROOMY,
    isolates: 1,
    nowMs: 0,
    callMs: 0,
  };
  const units = isLeased ? wantOf(CHECK, pace) : 0;
  return perSecond / Math.max(1, units);
}

/** How many subjects a region sees within a window, if they ask at random. */
const seenInWindow = ({ subjects, part }: Band, perSecond: number): number =>
  subjects * (1 - Math.exp(-perSecond * part * WINDOW_SECONDS));

/** Far from the limit. Near it, requests are counted one by one. */
const ROOMY = 1_000_000_000;
const CHECK = fixedWindowCheck(ROOMY, WINDOW_SECONDS);
