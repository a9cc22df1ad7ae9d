// The queue's consumer: writes each batch to Postgres and acknowledges it. The queue delivers a failed batch again,
// after a longer delay each time. A batch that fails too often goes to the dead-letter queue, where the consumer counts
// it and tries it again.
import type { MetricSums } from '../core/telemetry/metrics.ts';
import type { RecordBatch } from './flush.ts';
import { countOf } from './flush.ts';

/** A message, as Cloudflare Queues delivers it. */
export interface QueuedMessage {
  readonly body: unknown;
  readonly attempts: number;
  ack(): void;
  retry(options?: { readonly delaySeconds?: number }): void;
}

export interface QueuedBatch {
  readonly queue: string;
  readonly messages: readonly QueuedMessage[];
}

export interface ConsumerOptions {
  /** Returns whether the batch was new. */
  readonly write: (batch: RecordBatch) => Promise<boolean>;
  readonly now: () => number;
  readonly sums: MetricSums;
  /** The first delay of a failed batch; each further delay is twice as long. */
  readonly retrySeconds: number;
  /** Hands the sums over now, because an isolate that only consumes has no responses. */
  readonly flush: () => Promise<void>;
  readonly onError: (error: unknown) => void;
}

const LONGEST_DELAY_SECONDS = 3_600;
/** The name of a dead-letter queue ends with this text. */
const DEAD_LETTERS = '-dead';

export function createConsumer(options: ConsumerOptions) {
  const { write, now, sums, retrySeconds, flush, onError } = options;
  const consume = async (message: QueuedMessage) => {
    const { body } = message;
    // A message that is not a batch fails however often it is delivered.
    if (!isRecordBatch(body)) {
      onError(new Error('a message of the queue is not a batch'));
      return message.ack();
    }
    try {
      if (await write(body)) count(body);
      message.ack();
    } catch (error) {
      onError(error);
      message.retry({ delaySeconds: delayOf(retrySeconds, message.attempts) });
    }
  };

  const count = (batch: RecordBatch) => {
    sums.histogram('recordsLag').observe(Math.max(0, now() - batch.cutAtMs));
    const denials = countOf(batch);
    if (denials > 0) sums.counter('denialsWritten').add(denials);
  };

  return async ({ queue, messages }: QueuedBatch): Promise<void> => {
    for (const message of messages) {
      if (queue.endsWith(DEAD_LETTERS) && message.attempts === 1) sums.counter('deadLetters').add();
      await consume(message);
    }
    await flush();
  };
}

const delayOf = (firstSeconds: number, attempts: number) =>
  Math.min(LONGEST_DELAY_SECONDS, firstSeconds * 2 ** Math.min(20, Math.max(0, attempts - 1)));

const isRecordBatch = (body: unknown): body is RecordBatch =>
  typeof body === 'object' &&
  body !== null &&
  'id' in body &&
  typeof body.id === 'string' &&
  'denials' in body &&
  Array.isArray(body.denials) &&
  'usage' in body &&
  Array.isArray(body.usage);
