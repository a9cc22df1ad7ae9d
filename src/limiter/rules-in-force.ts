// Whether the rules of this isolate are still in force: what the regions announce is asked for along with checks that are
// made anyway, or by itself, and news is followed.
import type { AfterResponse } from '../core/caller.ts';
import { CounterStoreError } from '../core/counter-store.ts';
import type { Snapshot } from '../core/snapshot.ts';
import type { Question, SnapshotSource } from '../core/snapshot-source.ts';
import { createDeadline, type Deadline, waitHalf } from './deadline.ts';
import { askRegions, type Regions } from './region-ladder.ts';

export interface Asking {
  readonly request: { readonly regions: Regions; readonly afterResponse: AfterResponse };
  readonly deadline: Deadline;
  readonly question?: Question | undefined;
}

export interface RulesInForce {
  /** The first rules of this isolate. */
  start(regions: Regions): Promise<Snapshot | undefined>;
  /** Notes what a question has brought: all that regions announce, null for nothing. The news, if there is any. */
  learn(question: Question, announced: readonly (string | null)[]): string | undefined;
  /** Asks by itself, and waits for the answer only if the rules must be confirmed before anybody is judged by them. */
  hear(asking: Asking): Promise<string | undefined>;
  /** Loads the news. True if other rules than those asked about must decide, and are there in time. */
  follow(news: string, asking: Asking): Promise<boolean>;
}

export interface RulesInForceOptions {
  readonly snapshots: SnapshotSource;
  readonly deadlineMs: number;
  readonly now: () => number;
}

export function createRulesInForce({ snapshots, deadlineMs, now }: RulesInForceOptions): RulesInForce {
  const read = (regions: Regions, deadline: Deadline) =>
    askRegions({ regions, deadline, now, ask: ({ board }, signal) => board.read(signal) });

  const learn: RulesInForce['learn'] = (question, announced) => {
    const news = announced.find((text) => text !== null && text !== question.expects) ?? undefined;
    if (announced.length === 0) snapshots.fail();
    else if (news === undefined) snapshots.confirm(question);
    return news;
  };

  return {
    learn,

    start: (regions) =>
      snapshots.start({
        async read() {
          const asked = await read(regions, createDeadline(deadlineMs, now));
          if (asked.kind === 'answered') return asked.answer;
          throw new CounterStoreError('unavailable', 'no region answers');
        },
      }),

    async hear({ request: { regions, afterResponse }, deadline, question }) {
      if (!question) return undefined;
      const ask = async (within: Deadline) => {
        const asked = await read(regions, within);
        return learn(question, asked.kind === 'answered' ? [asked.answer ?? null] : []);
      };
      if (question.isOverdue) return ask(deadline);
      const heard = ask(createDeadline(deadlineMs, now));
      afterResponse(heard.then((news) => news !== undefined && snapshots.load(news)));
      return undefined;
    },

    async follow(news, { request, deadline, question }) {
      const loading = snapshots.load(news);
      request.afterResponse(loading);
      // Rules that were confirmed a moment ago are good for one more request.
      if (!question?.isOverdue) return false;
      await waitHalf(deadline, loading);
      // What takes longer is not waited for by everybody.
      if (!snapshots.isConfirmed(now())) snapshots.fail();
      return snapshots.announced() !== question.expects;
    },
  };
}
