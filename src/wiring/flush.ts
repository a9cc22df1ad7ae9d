// Puts together the flush of an isolate's counts: metrics to a region's Redis, denials and usage to a queue or to
// Postgres. It is loaded with the first flush.
import type { Collected } from '../core/telemetry/metrics.ts';
import type { Client } from '../redis/client.ts';
import { createMetricsStore } from '../redis/metrics-store.ts';
import {
  countOf,
  createFlush as create,
  createRecordSink,
  type Flush,
  type FlushOptions,
  type RecordSinkOptions,
} from '../telemetry/flush.ts';
import { createSubjects, type SubjectsOptions } from '../telemetry/subjects.ts';

export interface IsolateFlushOptions
  extends Pick<FlushOptions, 'isolateId' | 'now' | 'onDenied' | 'onError'>,
    Pick<RecordSinkOptions, 'queue' | 'write'> {
  readonly collected: Collected;
  readonly clients: ReadonlyMap<string, Client>;
  readonly subjects: SubjectsOptions;
}

export function createFlush({ collected, clients, subjects, ...options }: IsolateFlushOptions): Flush {
  const { sums } = collected;
  return create({
    ...options,
    ...collected,
    boards: new Map([...clients].map(([name, client]) => [name, createMetricsStore(client)])),
    subjects: createSubjects(subjects),
    records: createRecordSink({
      ...options,
      onWritten: (batch) => sums.counter('denialsWritten').add(countOf(batch)),
    }),
  });
}
