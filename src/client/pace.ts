// How fast this process may send under a policy that it shares with others. A client knows only its own responses: how
// many units remain, and when the limit resets. From how quickly units disappear it learns its own share.
import type { Reading } from './fields.ts';

export interface Pace {
  /** Learns from a response: its request was sent then and took `cost` units. */
  learn(reading: Reading, request: SentRequest, nowMs: number): void;
  /** Returns the earliest time for the next request, and reserves it. */
  claim(nowMs: number): number;
}

export interface SentRequest {
  readonly sentAtMs: number;
  readonly cost: number;
}

/** A part of the limit that clients leave unused, for requests that others send meanwhile. */
const MARGIN = 0.002;
/** Clients aim to use up a window when this part of its time is left, to make up for pauses. */
const RESERVE = 0.1;
/** A policy that refills continuously is used at full rate while this part of it remains. */
const CUSHION = 0.01;
/** The weight of the past when a response updates the estimated share. */
const MEMORY = 0.9;
/** The accuracy of clocks. */
const JITTER_MS = 100;
/** If this part of the limit comes back at once, a new window has begun. */
const JUMP = 0.2;
/** The shortest rest of a window over which requests are spread. */
const MIN_USEFUL_MS = 20;
/** A request waits at most this many usual gaps, because the estimate may be outdated. */
const MAX_GAPS = 4;

export function createPace(random: () => number): Pace {
  let last: Reading | undefined;
  let lastAtMs = 0;
  /** Between these two the limit resets. */
  let resetFromMs = 0;
  let resetToMs = 0;
  /** Not a window that ends for all units at once: they come back one by one. */
  let refills = false;
  let own = 1;
  let total = 1;
  /** Of the request that was let go last. */
  let sentLastMs = 0;
  /** Of the units that the last response told of: less what was sent since. */
  let left = 0;
  /** That ever remained. A bucket may hold fewer units than come in a window. */
  let most = 1;

  const share = () => Math.min(1, Math.max(0.001, own / Math.max(own, total)));

  /** The server has looked at its clock between the request and the response. */
  const learnReset = ({ resetSeconds }: Reading, sentAtMs: number, nowMs: number) => {
    const toMs = nowMs + resetSeconds * 1000;
    const fromMs = sentAtMs + (resetSeconds - 1) * 1000;
    const isSame = fromMs <= resetToMs + JITTER_MS && toMs >= resetFromMs - JITTER_MS;
    if (!isSame && nowMs < resetFromMs - JITTER_MS) refills = true;
    const from = isSame ? Math.max(resetFromMs, fromMs) : fromMs;
    const to = isSame ? Math.min(resetToMs, toMs) : toMs;
    resetFromMs = Math.min(from, to);
    resetToMs = Math.max(from, to);
  };

  const learnShare = (reading: Reading, cost: number, nowMs: number) => {
    if (!last) return;
    const refilled = refills ? ((nowMs - lastAtMs) * reading.quota) / reading.windowMs : 0;
    const used = last.remaining - reading.remaining + refilled;
    if (-used > reading.quota * JUMP) refills = false;
    // The window is a new one: nothing can be compared.
    if (!refills && reading.remaining > last.remaining + cost) return;
    own = own * MEMORY + cost;
    total = total * MEMORY + used;
  };

  /** Between two requests of this client, if all of them use the whole limit. */
  const usualGapMs = ({ quota, windowMs }: Reading) => windowMs / quota / share();

  const around = (gapMs: number) => gapMs * (0.75 + random() / 2);

  /** Under a policy that refills all the time. */
  const refillGapMs = (reading: Reading) => {
    const { quota } = reading;
    const usualMs = usualGapMs(reading);
    // A full bucket loses what comes in: the fuller it is, the faster it is used, up to twice as fast.
    const speed = Math.min(1 + left / most, (left - quota * MARGIN) / (quota * CUSHION));
    return Math.min(around(usualMs / Math.max(0, speed)), MAX_GAPS * usualMs);
  };

  /** Under a policy whose window ends for all units at once. */
  const windowGapMs = (reading: Reading, fromMs: number) => {
    const { quota, windowMs } = reading;
    const endsInMs = resetToMs - fromMs;
    const usefulMs = (resetFromMs + resetToMs) / 2 - fromMs - windowMs * RESERVE;
    const ownUnits = (left - quota * MARGIN) * share();
    // Less than one is for the others, who have a request under way: its time was chosen when more was left.
    return ownUnits < 1
      ? endsInMs + usualGapMs(reading) * random()
      : around(Math.max(usefulMs, endsInMs / 2, MIN_USEFUL_MS) / ownUnits);
  };

  /** The last one has ended, and nobody has told of the next one yet. */
  const startWindow = (windowMs: number, quota: number, nowMs: number) => {
    const pastMs = Math.ceil((nowMs - resetFromMs) / windowMs) * windowMs;
    resetFromMs += pastMs;
    resetToMs += pastMs;
    left = quota;
  };

  return {
    learn(reading, { cost, sentAtMs }, nowMs) {
      learnReset(reading, sentAtMs, nowMs);
      learnShare(reading, cost, nowMs);
      last = reading;
      lastAtMs = nowMs;
      left = reading.remaining;
      most = Math.max(most, left);
    },

    claim(nowMs) {
      if (!last) return nowMs;
      const { quota, windowMs } = last;
      if (!refills && nowMs >= resetToMs) startWindow(windowMs, quota, nowMs);
      // Time that nobody asked for is not saved up.
      const fromMs = Math.max(sentLastMs, nowMs - usualGapMs(last));
      sentLastMs = Math.max(nowMs, fromMs + (refills ? refillGapMs(last) : windowGapMs(last, fromMs)));
      left -= 1;
      return sentLastMs;
    },
  };
}
