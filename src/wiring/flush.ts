// Gives the flush its real parts: the Redis of each region, the queue or Postgres. It is loaded with the first flush.
import type { TelemetrySums } from '../core/telemetry/metrics.ts';
import type { Client } from '../redis/client.ts';
import { createMetricsStores } from '../redis/metrics-store.ts';
import {
  createSubjects,
  createFlush as createTelemetryFlush,
  type Flush,
  type FlushOptions,
  type RecordQueue,
  type SubjectsOptions,
} from '../telemetry/flush.ts';

export interface IsolateFlushOptions
  extends Pick<FlushOptions, 'isolateId' | 'now' | 'onDenied' | 'onError'> {
  readonly collected: TelemetrySums;
  readonly clients: ReadonlyMap<string, Client>;
  readonly subjects: SubjectsOptions;
  readonly queue: RecordQueue | undefined;
  /** Used if there is no queue. */
  readonly write: FlushOptions['send'];
}

export const createFlush = ({
  collected,
  clients,
  subjects,
  queue,
  write,
  ...options
}: IsolateFlushOptions): Flush =>
  createTelemetryFlush({
    ...options,
    ...collected,
    stores: createMetricsStores(clients),
    subjects: createSubjects(subjects),
    send: queue ? (batch) => queue.send(batch) : write,
    createId: () => crypto.randomUUID(),
  });
