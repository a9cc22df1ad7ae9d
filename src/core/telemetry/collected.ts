// All that an isolate has counted and not handed over yet.
import { type Crossings, createCrossings } from './crossings.ts';
import { createMetricSums, type MetricSums } from './metric-sums.ts';
import {
  createDenialSums,
  createUsageSums,
  type Denial,
  type DenialFields,
  type Sums,
  type Usage,
  type UsageFields,
} from './records.ts';

export interface Collected {
  readonly sums: MetricSums;
  readonly denials: Sums<Denial, DenialFields>;
  readonly usage: Sums<Usage, UsageFields>;
  readonly crossings: Crossings;
}

export const createCollected = (): Collected => ({
  sums: createMetricSums(),
  denials: createDenialSums(),
  usage: createUsageSums(),
  crossings: createCrossings(),
});
