// Keeps the rules of this isolate up to date. It reads the announcement of a region, by a call that counts checks or by
// a call of its own, and loads newer rules.

import type { Snapshot } from '../core/matching/snapshot.ts';
import type { AfterResponse } from '../core/ports/after-response.ts';
import { CounterStoreError } from '../core/ports/counter-store.ts';
import type { OutdatedNotice, Probe, SnapshotSource } from '../core/ports/snapshot-source.ts';
import { createDeadline, type Deadline, waitAtMost } from './deadline.ts';
import { keepAlive } from './keep-alive.ts';
import { askRegion, FAIR_PART, type Regions } from './region.ts';

/** The announcement of a region; null if there is none. */
export interface RegionAnnouncement extends Omit<OutdatedNotice, 'announced'> {
  readonly announced: string | null;
}

export interface Asking {
  readonly request: { readonly regions: Regions; readonly afterResponse: AfterResponse };
  readonly deadline: Deadline;
  readonly probe?: Probe | undefined;
}

export interface RulesInForce {
  /** Loads the first rules of this isolate. */
  start(regions: Regions): Promise<Snapshot | undefined>;
  /** Notes what a probe has read. Returns the notice if the rules are outdated. */
  learn(probe: Probe, heard: readonly RegionAnnouncement[]): OutdatedNotice | undefined;
  /**
   * Reads the announcement by a call of its own, if a probe is due. Returns a promise only if a region must confirm the
   * rules before they decide.
   */
  hear(asking: Asking): Promise<OutdatedNotice | undefined> | undefined;
  /** Loads the new rules. Returns true if they must decide this request and are loaded in time. */
  follow(news: OutdatedNotice, asking: Asking): Promise<boolean>;
}

/**
 * How long a request waits for new rules if the rules of its isolate have lapsed. A cold isolate waits as long: lapsed
 * rules are worth no more than none. KV gets a second of this time, and the copies in Redis get the rest.
 */
const LAPSED_WAIT_MS = 2_000;

export interface RulesInForceOptions {
  readonly snapshots: SnapshotSource;
  readonly deadlineMs: number;
  readonly now: () => number;
}

/** Whether a region announces other rules than this isolate expects. */
export const isOutdated = ({ announced }: RegionAnnouncement, expected: string): boolean =>
  announced !== null && announced !== expected;

export function createRulesInForce({ snapshots, deadlineMs, now }: RulesInForceOptions): RulesInForce {
  /** Asks the nearest region that answers. Each region but the last gets half of the time that is left. */
  const read = async (regions: Regions, deadline: Deadline): Promise<RegionAnnouncement | undefined> => {
    for (const [i, region] of regions.entries()) {
      const hasNext = regions.slice(i + 1).some(({ breaker }) => breaker.state(now()) === 'closed');
      const givenMs = deadline.remainingMs() / (hasNext ? 2 : 1);
      const isFair = givenMs >= deadline.totalMs * FAIR_PART;
      const ask = () => region.board.read(deadline.signal(givenMs));
      const asked = givenMs > 0 ? await askRegion({ region, isFair, now, ask }) : undefined;
      if (asked?.kind === 'answered') return { announced: asked.answer ?? null, board: region.board };
    }
    return undefined;
  };

  const learn: RulesInForce['learn'] = (probe, heard) => {
    const news = heard.find((one): one is OutdatedNotice => isOutdated(one, probe.expected));
    if (heard.length === 0) snapshots.fail();
    else if (!news) snapshots.confirm(probe);
    return news;
  };

  return {
    learn,

    start(regions) {
      let { board }: Pick<RegionAnnouncement, 'board'> = regions[0];
      return snapshots.start({
        async read() {
          const heard = await read(regions, createDeadline(deadlineMs, now));
          if (!heard) throw new CounterStoreError('unavailable', 'no region answers');
          board = heard.board;
          return heard.announced ?? undefined;
        },
        readPublished: (parts, signal) => board.readPublished(parts, signal),
      });
    },

    hear({ request, deadline, probe }) {
      if (!probe) return undefined;
      const ask = async (within: Deadline) => {
        const heard = await read(request.regions, within);
        return learn(probe, heard ? [heard] : []);
      };
      const heard = ask(probe.isOverdue ? deadline : createDeadline(deadlineMs, now));
      if (probe.isOverdue) {
        keepAlive(heard, request);
        return heard;
      }
      request.afterResponse(heard.then((news) => news && snapshots.load(news)));
      return undefined;
    },

    async follow(news, { request, deadline, probe }) {
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
