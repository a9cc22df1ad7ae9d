// Where an isolate hands denials and usage over: to a queue, or straight to Postgres if there is none.
import type { RecordBatch, RecordSink } from './record-batch.ts';

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
  if (queue) return { send: async (batch) => void (await queue.send(batch)) };
  return {
    async send(batch) {
      if (await write(batch)) onWritten(batch);
    },
  };
}
