// Keeps the rules of this isolate up to date. It reads the announcement of a region, by a call that counts checks or by
// a call of its own, and loads newer rules.

import type { DegradedReason } from '../core/decision.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import { CounterStoreError } from '../core/ports/region.ts';
import type { OutdatedNotice, Probe, SnapshotSource } from '../core/ports/snapshot-source.ts';
import type { AfterResponse } from '../core/ports/telemetry.ts';
import { createDeadline, type Deadline, keepAlive, waitAtMost } from './deadline.ts';
import { askRegion, FAIR_PART, type Regions } from './region.ts';

/** The announcement of a region; null if there is none. */
export interface RegionAnnouncement extends Omit<OutdatedNotice, 'announced'> {
  readonly announced: string | null;
}

export interface RulesRequest {
  readonly request: { readonly regions: Regions; readonly afterResponse: AfterResponse };
  readonly deadline: Deadline;
  readonly probe?: Probe | undefined;
}

/** What a request has learnt about its rules before they decide. */
export interface RulesNews {
  readonly news: OutdatedNotice | undefined;
  /** Why the request waited longer than it should have. */
  readonly delayedBy: DegradedReason | undefined;
}

/**
 * How long a request waits for new rules if the rules of its isolate have lapsed. A cold isolate waits as long: lapsed
 * rules are worth no more than none. KV gets a second of this time, and the copies in Redis get the rest.
 */
const LAPSED_WAIT_MS = 2_000;

/**
 * If a near region has not answered after this time, the next one is asked as well: a request that needs no counter must
 * not wait for a region that does not answer.
 */
const SOON_MS = 25;

export interface RulesInForceOptions {
  readonly snapshots: SnapshotSource;
  readonly deadlineMs: number;
  readonly now: () => number;
}

/** The announcement of the first region that answered. */
interface Read extends Pick<RulesNews, 'delayedBy'> {
  readonly heard: RegionAnnouncement | undefined;
}

const nothing = () => undefined;

/** Whether a region announces other rules than this isolate expects. */
export const isOutdated = (heard: RegionAnnouncement, expected: string): heard is OutdatedNotice =>
  heard.announced !== null && heard.announced !== expected;

export function createRulesInForce({ snapshots, deadlineMs, now }: RulesInForceOptions) {
  /**
   * Asks the nearest region, and the next ones as well if it does not answer soon. The first answer counts. Waits for
   * the last region for at most `mostMs`. A call that is not answered yet goes on after the response, because the
   * breaker must learn how it ends.
   */
  const read = async (
    { regions, afterResponse }: RulesRequest['request'],
    deadline: Deadline,
    mostMs = deadline.totalMs,
  ): Promise<Read> => {
    const askedAtMs = now();
    const asked: Promise<RegionAnnouncement>[] = [];
    let failure: DegradedReason | undefined;
    for (const [i, region] of regions.entries()) {
      const hasNext = regions.slice(i + 1).some(({ breaker }) => breaker.state(now()) === 'closed');
      const givenMs = deadline.remainingMs() / (hasNext ? 2 : 1);
      if (givenMs <= 0) break;
      const isFair = givenMs >= deadline.totalMs * FAIR_PART;
      const ask = () => region.pointer.read(deadline.signal(givenMs));
      const one = askRegion({ region, isFair, now, ask }).then((answer) => {
        if (answer.kind === 'answered') return { announced: answer.answer ?? null, pointer: region.pointer };
        failure ??= answer.reason;
        throw new CounterStoreError('unavailable', 'the region does not answer');
      });
      afterResponse(one.then(nothing, nothing));
      asked.push(one);
      const patienceMs = Math.min(givenMs, region.distance.fitMs(hasNext ? SOON_MS : mostMs));
      const heard = await waitAtMost(patienceMs, Promise.any(asked).catch(nothing), undefined);
      if (!heard) continue;
      const isLate = now() - askedAtMs > deadline.totalMs * FAIR_PART;
      return { heard, delayedBy: isLate ? (failure ?? 'slow') : undefined };
    }
    return { heard: undefined, delayedBy: failure };
  };

  /** Notes what a probe has read. Returns the notice if the rules are outdated. */
  const learn = (probe: Probe, heard: RegionAnnouncement | undefined): OutdatedNotice | undefined => {
    if (!heard) snapshots.fail();
    else if (isOutdated(heard, probe.expected)) return heard;
    else snapshots.confirm(probe);
    return undefined;
  };

  return {
    learn,

    /** Loads the first rules of this isolate. */
    start(request: RulesRequest['request']): Promise<Snapshot | undefined> {
      let { pointer }: Pick<RegionAnnouncement, 'pointer'> = request.regions[0];
      return snapshots.start({
        async read() {
          const { heard } = await read(request, createDeadline(deadlineMs, now));
          if (!heard) throw new CounterStoreError('unavailable', 'no region answers');
          pointer = heard.pointer;
          return heard.announced ?? undefined;
        },
        readPublished: (parts, signal) => pointer.readPublished(parts, signal),
      });
    },

    /**
     * Reads the announcement by a call of its own, if a probe is due. Returns a promise only if a region must confirm the
     * rules before they decide.
     */
    hear({ request, deadline, probe }: RulesRequest): Promise<RulesNews> | undefined {
      if (!probe) return undefined;
      // Lapsed rules are worth no more than none, so they may take as long.
      const mostMs = probe.isLapsed ? deadlineMs : deadlineMs * FAIR_PART;
      const ask = async (within: Deadline) => {
        const { heard, delayedBy } = await read(request, within, mostMs);
        return { news: learn(probe, heard), delayedBy };
      };
      const hearing = ask(probe.isOverdue ? deadline : createDeadline(deadlineMs, now));
      if (probe.isOverdue) {
        keepAlive(hearing, request);
        return hearing;
      }
      request.afterResponse(hearing.then(({ news }) => news && snapshots.load(news)));
      return undefined;
    },

    /** Loads the new rules. Returns true if they must decide this request and are loaded in time. */
    async follow(news: OutdatedNotice, { request, deadline, probe }: RulesRequest): Promise<boolean> {
      const loading = snapshots.load(news);
      request.afterResponse(loading);
      // Rules that were confirmed a moment ago may decide one more request.
      if (!probe?.isOverdue) return false;
      const mostMs = probe.isLapsed ? LAPSED_WAIT_MS : deadline.remainingMs() / 2;
      await waitAtMost<unknown>(mostMs, loading, undefined);
      const isThere = snapshots.announced() !== probe.expected;
      // For a moment, no other request waits for rules that load slowly. Once they are loaded, requests ask again.
      if (!isThere && !snapshots.isConfirmed(now())) snapshots.fail();
      return isThere;
    },
  };
}
