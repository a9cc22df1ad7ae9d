// What each resource needs at so many requests a second: the costs of costs.ts, and leases as the limiter asks for them.
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
  /** Who is counted: each caller, or everybody together. */
  readonly bands: readonly Band[];
  readonly isLeased: boolean;
}

export interface Needs {
  readonly isolates: number;
  /** In each region, a second. */
  readonly commands: number;
  readonly commandsPerRequest: number;
  /** Calls a second to the key that is asked most, in one region. */
  readonly hottestKey: number;
  /** Of Redis' one thread that runs scripts, in each region. */
  readonly redisLoad: number;
  /** Of the counters of one window, in each region. */
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
  // Requests come to all isolates alike: nothing is worse for leases.
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

/** Of one isolate for one subject: one for each request, or one for each lease. */
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

/** Subjects that have asked in a region within a window, of those that ask at random. */
const seenInWindow = ({ subjects, part }: Band, perSecond: number): number =>
  subjects * (1 - Math.exp(-perSecond * part * WINDOW_SECONDS));

/** Nobody comes near the limit: there, requests are counted one by one. */
const ROOMY = 1_000_000_000;
const CHECK = fixedWindowCheck(ROOMY, WINDOW_SECONDS);
