// Hands denials and usage over, to a queue or straight to Postgres. If that fails, the isolate keeps the batch and its
// id, and sends it again. Postgres gets the batch once, however often it is sent.
import type { Collected } from '../core/telemetry/collected.ts';
import type { Denial } from '../core/telemetry/records.ts';
import { cutBatches, type RecordBatch, type RecordSink } from './record-batch.ts';
import type { Subjects } from './subjects.ts';

export interface DeniedSample {
  readonly rule: string;
  readonly route: string;
  readonly subject: string;
}

export interface RecordsHandOverOptions extends Collected {
  readonly records: RecordSink;
  readonly subjects: Subjects;
  readonly now: () => number;
  readonly onDenied: (denied: DeniedSample) => void;
  readonly onError: (error: unknown) => void;
}

/** Lines in the log for each hand-over: the subjects with the most denials. */
const MAX_SAMPLES = 3;

export function createRecordsHandOver(options: RecordsHandOverOptions) {
  const { sums, denials, usage, crossings, records, subjects, now, onDenied, onError } = options;
  /** Until these batches are handed over, the isolate cuts no others. The sums in memory grow, but are bounded. */
  let unsent: readonly RecordBatch[] = [];

  const sample = async (rows: readonly Denial[]) => {
    const most = [...rows].sort((a, b) => b.count - a.count).slice(0, MAX_SAMPLES);
    for (const { ruleName, route, subject } of most)
      onDenied({ rule: ruleName, route, subject: await subjects.hash(subject) });
  };

  const cut = async () => {
    // Takes all sums before it awaits anything.
    const [denied, used, crossed] = [denials.take(), usage.take(), crossings.take()];
    const createId = () => crypto.randomUUID();
    await sample(denied);
    const rows = {
      denials: await subjects.subjectsOf(denied),
      usage: await subjects.usage(used),
      crossings: await subjects.subjectsOf(crossed),
    };
    unsent = [...unsent, ...cutBatches({ nowMs: now(), createId, ...rows })];
  };

  const handed = (batch: RecordBatch) => {
    // Two requests may have sent it at the same time.
    if (!unsent.includes(batch)) return;
    unsent = unsent.filter(({ id }) => id !== batch.id);
    const count = countOf(batch);
    if (count > 0) sums.counter('denialsHanded').add(count);
  };

  const sendAll = async () => {
    for (const batch of unsent) {
      await records.send(batch);
      handed(batch);
    }
  };

  return async (): Promise<void> => {
    try {
      // First sends the batches that failed before, then the sums since.
      await sendAll();
      if (denials.size + usage.size + crossings.size > 0) await cut();
      await sendAll();
    } catch (error) {
      onError(error);
    }
  };
}

export const countOf = ({ denials }: RecordBatch): number =>
  denials.reduce((total, { count }) => total + count, 0);
