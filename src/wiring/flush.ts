// Puts together the hand-over of an isolate's counts: metrics to a region's Redis, denials and usage to a queue or to
// Postgres. It is loaded with the first hand-over.
import type { Collected } from '../core/telemetry/metrics.ts';
import type { Client } from '../redis/client.ts';
import { createMetricsBoard } from '../redis/metrics-board.ts';
import {
  countOf,
  createHandOver as create,
  createRecordSink,
  type HandOver,
  type HandOverOptions,
  type RecordSinkOptions,
} from '../telemetry/flush.ts';
import { createSubjects, type SubjectsOptions } from '../telemetry/subjects.ts';

export interface IsolateHandOverOptions
  extends Pick<HandOverOptions, 'isolateId' | 'now' | 'onDenied' | 'onError'>,
    Pick<RecordSinkOptions, 'queue' | 'write'> {
  readonly collected: Collected;
  readonly clients: ReadonlyMap<string, Client>;
  readonly subjects: SubjectsOptions;
}

export function createHandOver({
  collected,
  clients,
  subjects,
  ...options
}: IsolateHandOverOptions): HandOver {
  const { sums } = collected;
  return create({
    ...options,
    ...collected,
    boards: new Map([...clients].map(([name, client]) => [name, createMetricsBoard(client)])),
    subjects: createSubjects(subjects),
    records: createRecordSink({
      ...options,
      onWritten: (batch) => sums.counter('denialsWritten').add(countOf(batch)),
    }),
  });
}
