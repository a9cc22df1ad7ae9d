// Whether the rules of this isolate are still in force: what the regions announce is asked for along with checks that are
// made anyway, or by itself, and news is followed.
import type { AfterResponse } from '../core/matching/caller.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import { CounterStoreError } from '../core/ports/counter-store.ts';
import type { OutdatedNotice, Probe, SnapshotSource } from '../core/ports/snapshot-source.ts';
import { createDeadline, type Deadline, waitHalf } from './deadline.ts';
import { askRegion, FAIR_PART, type Regions } from './region-ladder.ts';

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
  /** By the nearest region that answers. As long as there is another one to turn to, one gets half of the time that is left. */
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
      let { board }: Pick<RegionAnnouncement, 'board'> = regions[0];
      return snapshots.start({
        async read() {
          const heard = await read(regions, createDeadline(deadlineMs, now));
          if (!heard) throw new CounterStoreError('unavailable', 'no region answers');
          board = heard.board;
          return heard.announced ?? undefined;
        },
        readParts: (parts, signal) => board.readParts(parts, signal),
      });
    },

    async hear({ request: { regions, afterResponse }, deadline, probe }) {
      if (!probe) return undefined;
      const ask = async (within: Deadline) => {
        const heard = await read(regions, within);
        return learn(probe, heard ? [heard] : []);
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
