// Where an isolate hands denials and usage over: to a queue, or straight to Postgres if there is none.
import { withDeadline } from '../rules/book/with-deadline.ts';
import type { RecordBatch, RecordSink } from './record-batch.ts';

/** A sink that hangs must not keep the metrics back: all of a hand-over has 30 s. A batch that was late comes again. */
const SEND_MS = 8_000;

/** The part of a Cloudflare queue that Weir uses. */
export interface RecordQueue {
  send(batch: RecordBatch): Promise<unknown>;
}

export interface RecordSinkOptions {
  readonly queue: RecordQueue | undefined;
  /** Whether the batch was new. */
  readonly write: (batch: RecordBatch) => Promise<boolean>;
  readonly onWritten: (batch: RecordBatch) => void;
}

export function createRecordSink({ queue, write, onWritten }: RecordSinkOptions): RecordSink {
  const limited = <T>(work: Promise<T>) => withDeadline(AbortSignal.timeout(SEND_MS), work);
  if (queue) return { send: async (batch) => void (await limited(queue.send(batch))) };
  const writeOnce = async (batch: RecordBatch) => {
    if (await write(batch)) onWritten(batch);
  };
  return { send: (batch) => limited(writeOnce(batch)) };
}
