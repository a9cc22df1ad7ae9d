// The queue's consumer: writes each batch to Postgres and acknowledges it. What fails is delivered again, later each
// time; what has failed too often comes to the dead-letter queue, which is tried again too, and counted.
import type { MetricSums } from '../core/telemetry/metric-sums.ts';
import type { RecordBatch } from './record-batch.ts';
import { countOf } from './records-hand-over.ts';

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
  /** Whether it was new. */
  readonly write: (batch: RecordBatch) => Promise<boolean>;
  readonly now: () => number;
  readonly sums: MetricSums;
  /** The first delay of what failed; each further one is twice as long. */
  readonly retrySeconds: number;
  /** Hands the sums over now: an isolate that only consumes has no responses to do so after. */
  readonly handOver: () => Promise<void>;
  readonly onError: (error: unknown) => void;
}

const LONGEST_DELAY_SECONDS = 3_600;
/** By this end of its name a queue is known to be the one for what has failed. */
const DEAD_LETTERS = '-dead';

export function createConsumer(options: ConsumerOptions) {
  const { write, now, sums, retrySeconds, handOver, onError } = options;
  const consume = async (message: QueuedMessage) => {
    const { body } = message;
    // What is no batch never becomes one.
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
    await handOver();
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
