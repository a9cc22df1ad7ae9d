// The public name and the help text of each metric. docs/operations.md explains each of them.
import type { MetricId } from '../core/telemetry/metrics.ts';

export interface MetricText {
  readonly name: string;
  readonly help: string;
}

export const METRIC_TEXTS: Readonly<Record<MetricId, MetricText>> = {
  requests: { name: 'weir_requests_total', help: 'Requests by nearest region, route and result.' },
  checks: { name: 'weir_checks_total', help: 'Checks of rules by result, one for each rule.' },
  checkCalls: {
    name: 'weir_check_calls_total',
    help: 'Calls for checks without a request, by nearest region and result.',
  },
  decision: { name: 'weir_decision_seconds', help: 'Time of the whole decision, as far as it waits.' },
  redis: {
    name: 'weir_redis_seconds',
    help: 'Time of calls to the counters of a region that were answered.',
  },
  redisErrors: { name: 'weir_redis_errors_total', help: 'Calls to the counters of a region that failed.' },
  fallback: { name: 'weir_fallback_total', help: 'Requests that were not decided as they should be.' },
  origin: { name: 'weir_origin_seconds', help: 'Time until the headers of the origin came.' },
  originResponses: { name: 'weir_origin_responses_total', help: 'Answers of origins by class.' },
  billed: {
    name: 'weir_billed_commands_total',
    help: 'Redis commands of decisions as Upstash bills them, at most.',
  },
  denialsHanded: {
    name: 'weir_denials_handed_total',
    help: 'Denials that isolates handed over for Postgres.',
  },
  denialsWritten: { name: 'weir_denials_written_total', help: 'Denials that were written to Postgres.' },
  recordsLag: {
    name: 'weir_records_lag_seconds',
    help: 'Age of batches when they were written to Postgres.',
  },
  deadLetters: { name: 'weir_dead_letters_total', help: 'Batches that came to the dead-letter queue.' },
  webhook: {
    name: 'weir_webhook_messages_total',
    help: 'Messages for the webhook: those that became due, and what became of each attempt.',
  },
  batchesLost: { name: 'weir_metrics_lost_total', help: 'Batches of metrics that could not be handed over.' },
};

export type GaugeId =
  | 'up'
  | 'isolates'
  | 'breaker'
  | 'deadline'
  | 'rulesAge'
  | 'leasedCounters'
  | 'leasedUnits'
  | 'published';

/** Values that Weir reads when somebody asks, instead of adding them up. */
export const GAUGE_TEXTS: Readonly<Record<GaugeId, MetricText & { readonly type: 'gauge' | 'counter' }>> = {
  up: { name: 'weir_region_up', help: 'Whether the Redis of a region answered now.', type: 'gauge' },
  isolates: { name: 'weir_isolates', help: 'Isolates that a region has heard of lately.', type: 'gauge' },
  breaker: { name: 'weir_breaker_state', help: 'Isolates by the state of their breaker.', type: 'gauge' },
  deadline: {
    name: 'weir_deadline_seconds',
    help: 'DEADLINE_MS: the most time that a decision may take.',
    type: 'gauge',
  },
  rulesAge: {
    name: 'weir_rules_version_age_seconds',
    help: 'For so long an isolate has decided by rules that it could not confirm: the longest of all.',
    type: 'gauge',
  },
  leasedCounters: {
    name: 'weir_leases_counters',
    help: 'Counters that isolates have leased units of.',
    type: 'gauge',
  },
  leasedUnits: {
    name: 'weir_leases_units',
    help: 'Units that isolates have charged in advance and not used.',
    type: 'gauge',
  },
  published: {
    name: 'weir_published_total',
    help: 'The number of the publication in force.',
    type: 'counter',
  },
};
