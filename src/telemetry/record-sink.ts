// Where an isolate hands denials and usage over: to a queue, or straight to Postgres if there is none.
import type { Queue } from '@cloudflare/workers-types';
import type { RecordBatch, RecordSink } from './record-batch.ts';

export interface RecordSinkOptions {
  readonly queue: Queue<RecordBatch> | undefined;
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
