// How fast this process may send under a policy that it shares with others. A client knows only its own responses: how
// many units remain, and when the limit resets. It learns its own share from how quickly units disappear.
import type { PolicyReading } from './fields.ts';

export interface ClientPace {
  /** Learns from the response to this request. */
  learn(reading: PolicyReading, request: SentRequest, nowMs: number): void;
  /** Returns the earliest time for the next request, and reserves it. */
  claim(nowMs: number): number;
}

export interface SentRequest {
  readonly sentAtMs: number;
  readonly cost: number;
  /** How many other requests of this client have no response yet. */
  readonly pending: number;
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
/** Clients that share a limit spread this part of it over the window, because each knows only its own responses. */
const SHARED = 0.7;

export function createPace(random: () => number, spread: boolean | undefined): ClientPace {
  let last: PolicyReading | undefined;
  let lastAtMs = 0;
  /** The limit resets between these two times. */
  let resetFromMs = 0;
  let resetToMs = 0;
  /** Whether units come back one by one, and not all at once at the end of a window. */
  let refills = false;
  let own = 1;
  let total = 1;
  /** The time that the last request has reserved. */
  let sentLastMs = 0;
  /** The remaining units of the last response, minus the requests that may have come after it. */
  let left = 0;
  /** `left` is a guess: the window is new, and no response has shown it yet. */
  let isGuess = false;
  /** The most units that ever remained. A bucket may hold fewer units than come in a window. */
  let most = 1;

  const share = () => Math.max(0.001, own / Math.max(own, total));

  /** Whether a request is admitted now, whatever other clients do. A client alone can use all that is left. */
  const isPlenty = ({ quota }: PolicyReading) => !isGuess && left >= 1 + quota * SHARED * (1 - share());

  /** The server has looked at its clock between the request and the response. */
  const learnReset = ({ resetSeconds }: PolicyReading, sentAtMs: number, nowMs: number) => {
    const toMs = nowMs + resetSeconds * 1000;
    const fromMs = sentAtMs + (resetSeconds - 1) * 1000;
    const isSame = fromMs <= resetToMs + JITTER_MS && toMs >= resetFromMs - JITTER_MS;
    if (!isSame && nowMs < resetFromMs - JITTER_MS) refills = true;
    const from = isSame ? Math.max(resetFromMs, fromMs) : fromMs;
    const to = isSame ? Math.min(resetToMs, toMs) : toMs;
    resetFromMs = Math.min(from, to);
    resetToMs = Math.max(from, to);
  };

  const learnShare = (reading: PolicyReading, cost: number, nowMs: number) => {
    if (!last) return;
    const refilled = refills ? ((nowMs - lastAtMs) * reading.quota) / reading.windowMs : 0;
    const used = last.remaining - reading.remaining + refilled;
    if (-used > reading.quota * JUMP) refills = false;
    // A new window has begun, so the two responses cannot be compared.
    if (!refills && reading.remaining > last.remaining + cost) return;
    own = own * MEMORY + cost;
    total = total * MEMORY + used;
  };

  /** The gap between two requests of this client, if all clients together use the whole limit. */
  const usualGapMs = ({ quota, windowMs }: PolicyReading) => windowMs / quota / share();

  const around = (gapMs: number) => gapMs * (0.75 + random() / 2);

  /** The gap under a policy that refills continuously. */
  const refillGapMs = (reading: PolicyReading) => {
    const { quota } = reading;
    const usualMs = usualGapMs(reading);
    // A full bucket loses units that come in. So the client uses a fuller bucket faster, up to twice as fast.
    const speed = Math.min(1 + left / most, (left - quota * MARGIN) / (quota * CUSHION));
    return Math.min(around(usualMs / Math.max(0, speed)), MAX_GAPS * usualMs);
  };

  /** The gap under a policy whose window ends for all units at once. */
  const windowGapMs = (reading: PolicyReading, fromMs: number) => {
    const { quota, windowMs } = reading;
    const endsInMs = resetToMs - fromMs;
    const usefulMs = (resetFromMs + resetToMs) / 2 - fromMs - windowMs * RESERVE;
    const ownUnits = (left - quota * MARGIN) * share();
    // Leaves less than one unit to other clients: they planned their next request when more units were left.
    return ownUnits < 1
      ? endsInMs + usualGapMs(reading) * random()
      : around(Math.max(usefulMs, endsInMs / 2, MIN_USEFUL_MS) / ownUnits);
  };

  /** The last window has ended, and no response has shown the next one yet. */
  const startWindow = ({ quota, windowMs }: PolicyReading, nowMs: number) => {
    const pastMs = Math.ceil((nowMs - resetFromMs) / windowMs) * windowMs;
    resetFromMs += pastMs;
    resetToMs += pastMs;
    left = quota;
    isGuess = true;
  };

  return {
    learn(reading, { cost, sentAtMs, pending }, nowMs) {
      learnReset(reading, sentAtMs, nowMs);
      learnShare(reading, cost, nowMs);
      last = reading;
      lastAtMs = nowMs;
      left = reading.remaining - pending;
      isGuess = false;
      most = Math.max(most, reading.remaining);
    },

    claim(nowMs) {
      if (!last) return nowMs;
      if (!refills && nowMs >= resetToMs) startWindow(last, nowMs);
      if (!spread && isPlenty(last)) {
        left -= 1;
        return nowMs;
      }
      // A client that was idle saves up no more than one usual gap.
      const fromMs = Math.max(sentLastMs, nowMs - usualGapMs(last));
      sentLastMs = Math.max(nowMs, fromMs + (refills ? refillGapMs(last) : windowGapMs(last, fromMs)));
      left -= 1;
      return sentLastMs;
    },
  };
}
