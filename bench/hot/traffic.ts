// Sends requests of one or many hot subjects to several isolates of one region. Counts how many are admitted in each
// window, and how many commands Redis gets.
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import type { Edges } from '../../local/edges.ts';
import { steadyLoad } from '../../local/steady-load.ts';
import { sumCalls } from '../../local/upstash-gateway/billing.ts';

/** Asks the isolate with that number about one request. */
export type Ask = (isolate: number, subject: string) => Promise<Verdict>;

export interface Verdict {
  readonly allowed: boolean;
  /** By the clock of the counters. */
  readonly atMs: number;
  /** Why it was not counted. */
  readonly uncounted?: string | undefined;
}

export interface Shape {
  readonly subjects: number;
  readonly isolates: number;
  readonly perSecond: number;
  /** As a multiple of the limit. */
  readonly load: number;
  readonly windowSeconds: number;
}

export interface Figures {
  readonly requests: number;
  readonly commandsPerRequest: number;
  /** Requests beyond the limit of a window. */
  readonly overAdmitted: number;
  /** The fraction of the allowed units that the subjects got, over all windows. */
  readonly utilization: number;
  readonly uncounted: readonly string[];
}

/** Requests keep this distance to the ends of windows. */
const EDGE_MS = 60;

export const limitOf = ({ perSecond, subjects, load, windowSeconds }: Shape): number =>
  Math.max(1, Math.round((perSecond * windowSeconds) / subjects / load));

export interface Sending {
  readonly edges: Edges;
  readonly shape: Shape;
  readonly windows: number;
  readonly ask: Ask;
}

/** Nothing is sent around the end of a window, so that each request belongs to one. */
export async function sendHot({ edges, shape, windows, ask }: Sending): Promise<Figures> {
  const { perSecond, isolates, subjects } = shape;
  const windowMs = shape.windowSeconds * 1_000;
  let before = 0;
  const seen = new Map<string, { sent: number; admitted: number }>();
  const uncounted: string[] = [];
  let requests = 0;
  // The first window is not measured: isolates learn the pace in it.
  for (let i = 0; i <= windows; i += 1) {
    if (i === 1) {
      before = await commandsOf(edges);
      requests = 0;
    }
    await sleep(windowMs - (Date.now() % windowMs) + EDGE_MS);
    const ms = windowMs - (Date.now() % windowMs) - EDGE_MS;
    const send = async (number: number) => {
      const subject = `subject-${number % subjects}`;
      const verdict = await ask(Math.floor(Math.random() * isolates), subject);
      if (verdict.uncounted !== undefined) return void uncounted.push(verdict.uncounted);
      const name = `${Math.floor(verdict.atMs / windowMs)} ${subject}`;
      const one = seen.get(name) ?? { sent: 0, admitted: 0 };
      seen.set(name, one);
      one.sent += 1;
      one.admitted += Number(verdict.allowed);
    };
    const results = await steadyLoad({ perSecond: (perSecond * windowMs) / ms, ms, send });
    requests += results.length;
  }
  const limit = limitOf(shape);
  const all = [...seen.values()];
  const sum = (of: (one: { sent: number; admitted: number }) => number) =>
    all.reduce((so, one) => so + of(one), 0);
  return {
    requests,
    commandsPerRequest: ((await commandsOf(edges)) - before) / Math.max(1, requests),
    overAdmitted: sum(({ admitted }) => Math.max(0, admitted - limit)),
    utilization:
      sum(({ admitted }) => admitted) /
      Math.max(
        1,
        sum(({ sent }) => Math.min(sent, limit)),
      ),
    uncounted,
  };
}

/** Commands as Upstash bills them, in all regions. */
async function commandsOf({ regions }: Edges): Promise<number> {
  const counts = regions.map(async ({ redis }) => {
    const client = new Redis(redis.url);
    const stats = await client.info('commandstats');
    client.disconnect();
    return sumCalls(stats);
  });
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
}
