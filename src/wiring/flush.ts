// Gives the flush its real parts: the Redis of each region, the queue or Postgres. It is loaded with the first flush.
import { createMetricsStores } from '../redis/metrics-store.ts';
import { createFlush, createSubjects, type FlushOptions } from '../telemetry/flush.ts';
import type { Core } from './core.ts';
import type { DeploymentParts } from './deployment.ts';

export interface IsolateFlushOptions extends DeploymentParts {
  readonly core: Core;
  /** Used if there is no queue. */
  readonly write: FlushOptions['send'];
}

export function createIsolateFlush({ config, core, write, ...parts }: IsolateFlushOptions) {
  const { RECORDS: queue } = config;
  return createFlush({
    ...parts.collected,
    isolateId: core.isolateId,
    now: parts.now,
    stores: createMetricsStores(core.regions),
    subjects: createSubjects(parts.subjects),
    send: queue ? (batch) => queue.send(batch) : write,
    createId: () => crypto.randomUUID(),
    onDenied: core.log.denied,
    onError: parts.onError,
  });
}
