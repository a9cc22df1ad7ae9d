// Whether the rules of this isolate are still in force: what the regions announce is asked for along with checks that are
// made anyway, or by itself, and news is followed.
import type { AfterResponse } from '../core/matching/caller.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import { CounterStoreError } from '../core/ports/counter-store.ts';
import type { OutdatedNotice, Probe, SnapshotSource } from '../core/ports/snapshot-source.ts';
import { createDeadline, type Deadline, waitHalf } from './deadline.ts';
import { askRegions, type Regions } from './region-ladder.ts';

/** What a region announces; null if nothing. */
export interface RegionAnnouncement extends Omit<OutdatedNotice, 'announced'> {
  readonly announced: string | null;
}

export interface Asking {
  readonly request: { readonly regions: Regions; readonly afterResponse: AfterResponse };
  readonly deadline: Deadline;
  readonly probe?: Probe | undefined;
}

export interface RulesInForce {
  /** The first rules of this isolate. */
  start(regions: Regions): Promise<Snapshot | undefined>;
  /** Notes what a probe has brought. The news, if there is any. */
  learn(probe: Probe, heard: readonly RegionAnnouncement[]): OutdatedNotice | undefined;
  /** Asks by itself, and waits for the answer only if the rules must be confirmed before anybody is judged by them. */
  hear(asking: Asking): Promise<OutdatedNotice | undefined>;
  /** Loads the news. True if other rules than those asked about must decide, and are there in time. */
  follow(news: OutdatedNotice, asking: Asking): Promise<boolean>;
}

export interface RulesInForceOptions {
  readonly snapshots: SnapshotSource;
  readonly deadlineMs: number;
  readonly now: () => number;
}

export function createRulesInForce({ snapshots, deadlineMs, now }: RulesInForceOptions): RulesInForce {
  const read = (regions: Regions, deadline: Deadline) =>
    askRegions({ regions, deadline, now, ask: ({ board }, signal) => board.read(signal) });

  const learn: RulesInForce['learn'] = (probe, heard) => {
    const isOutdated = (one: RegionAnnouncement): one is OutdatedNotice =>
      one.announced !== null && one.announced !== probe.expected;
    const news = heard.find(isOutdated);
    if (heard.length === 0) snapshots.fail();
    else if (!news) snapshots.confirm(probe);
    return news;
  };

  return {
    learn,

    start(regions) {
      let [{ board }] = regions;
      return snapshots.start({
        async read() {
          const asked = await read(regions, createDeadline(deadlineMs, now));
          if (asked.kind === 'unanswered') throw new CounterStoreError('unavailable', 'no region answers');
          board = asked.region.board;
          return asked.answer;
        },
        readParts: (parts, signal) => board.readParts(parts, signal),
      });
    },

    async hear({ request: { regions, afterResponse }, deadline, probe }) {
      if (!probe) return undefined;
      const ask = async (within: Deadline) => {
        const asked = await read(regions, within);
        if (asked.kind === 'unanswered') return learn(probe, []);
        return learn(probe, [{ announced: asked.answer ?? null, board: asked.region.board }]);
      };
      if (probe.isOverdue) return ask(deadline);
      const heard = ask(createDeadline(deadlineMs, now));
      afterResponse(heard.then((news) => news && snapshots.load(news)));
      return undefined;
    },

    async follow(news, { request, deadline, probe }) {
      const loading = snapshots.load(news);
      request.afterResponse(loading);
      // Rules that were confirmed a moment ago are good for one more request.
      if (!probe?.isOverdue) return false;
      await waitHalf<unknown>(deadline, loading, undefined);
      const isThere = snapshots.announced() !== probe.expected;
      // Rules that take longer are not waited for by everybody. About rules that came late, the next request asks again.
      if (!isThere && !snapshots.isConfirmed(now())) snapshots.fail();
      return isThere;
    },
  };
}
