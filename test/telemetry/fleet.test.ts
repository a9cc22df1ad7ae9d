// The metrics of all isolates, in the forms of Prometheus and OTLP.
import { describe, expect, it } from 'vitest';
import type { IsolateReport, RegionMetrics } from '../../src/core/ports/region.ts';
import { toOtlp, toPrometheus } from '../../src/telemetry/exports.ts';
import { type FleetOptions, readFleet } from '../../src/telemetry/fleet.ts';

const NOW_MS = 1_800_000_000_000;
const reportOf = (changes: Partial<IsolateReport>): IsolateReport => ({
  atMs: NOW_MS - 1_000,
  breakers: {},
  rulesAgeMs: 0,
  ...changes,
});
const metricsOf = (
  sums: Readonly<Record<string, number>>,
  reports: Readonly<Record<string, IsolateReport>> = {},
): RegionMetrics => ({
  sums: new Map(Object.entries(sums)),
  reports: new Map(Object.entries(reports)),
  isolateCount: Object.keys(reports).length,
  announced: `12.${'a'.repeat(16)}.${'b'.repeat(16)}`,
});
const storeOf = (found: RegionMetrics | undefined) => ({
  flush: async () => [],
  read: async () => found ?? Promise.reject(new Error('it does not answer')),
});
type Found = Readonly<Record<string, RegionMetrics | undefined>>;
const familiesOf = (found: Found, more: Partial<FleetOptions> = {}) =>
  readFleet(new Map(Object.entries(found).map(([name, metrics]) => [name, storeOf(metrics)])), {
    nowMs: NOW_MS,
    deadlineMs: 250,
    signal: AbortSignal.timeout(1_000),
    ...more,
  });
const linesOf = async (found: Found, more?: Partial<FleetOptions>) =>
  toPrometheus(await familiesOf(found, more)).split('\n');

describe('the text for Prometheus', () => {
  it('has each sum under its labels and the region that keeps it', async () => {
    const lines = await linesOf({
      us: metricsOf({ 'requests\tus\tdefault\tadmitted': 5, renewed: 1 }),
      eu: metricsOf({ 'requests\tus\tdefault\tadmitted': 2 }),
    });
    expect(lines.filter((line) => line.startsWith('weir_requests_total'))).toEqual([
      'weir_requests_total{region="us",route="default",result="admitted",store="us"} 5',
      'weir_requests_total{region="us",route="default",result="admitted",store="eu"} 2',
    ]);
    expect(lines).toContain('# TYPE weir_requests_total counter');
    expect(lines.join()).not.toContain('renewed');
  });

  it('adds up the buckets of a histogram, and has its sum in seconds', async () => {
    const sums = { 'redis\tus\tb0': 1, 'redis\tus\tb2': 2, 'redis\tus\tb12': 3, 'redis\tus\tsum': 2_500_000 };
    const lines = await linesOf({ us: metricsOf(sums) });
    const of = (le: string) => lines.find((line) => line.includes(`le="${le}"`))?.split(' ')[1];
    expect(['0.00025', '0.0005', '0.001', '1', '+Inf'].map(of)).toEqual(['1', '1', '3', '3', '6']);
    expect(lines).toContain('weir_redis_seconds_sum{region="us",store="us"} 2.5');
    expect(lines).toContain('weir_redis_seconds_count{region="us",store="us"} 6');
  });

  it('has counters without labels at zero, so that their first increase is seen', async () => {
    const lines = await linesOf({ us: metricsOf({}), eu: metricsOf({ deadLetters: 3 }), ap: undefined });
    expect(lines.filter((line) => line.startsWith('weir_dead_letters_total'))).toEqual([
      'weir_dead_letters_total{store="us"} 0',
      'weir_dead_letters_total{store="eu"} 3',
    ]);
  });

  it('escapes the names of rules', async () => {
    const lines = await linesOf({ us: metricsOf({ 'checks\ta "b" \\ c\tdenied': 1 }) });
    expect(lines).toContain('weir_checks_total{rule="a \\"b\\" \\\\ c",result="denied",store="us"} 1');
  });

  it('leaves out the sums of a region that does not answer, and reports the region as down', async () => {
    const lines = await linesOf({ us: metricsOf({ 'billedCommands\tus': 1 }), eu: undefined });
    expect(lines).toContain('weir_region_up{region="us"} 1');
    expect(lines).toContain('weir_region_up{region="eu"} 0');
    expect(lines.join()).not.toContain('store="eu"');
    expect(lines.filter((line) => line.startsWith('weir_isolates'))).toEqual([
      'weir_isolates{region="us"} 0',
    ]);
  });

  it('counts isolates by the newest report of each, for at most three minutes', async () => {
    const lines = await linesOf({
      us: metricsOf(
        {},
        {
          a: reportOf({ atMs: NOW_MS - 60_000, breakers: { us: 'closed' } }),
          b: reportOf({
            breakers: { us: 'closed' },
            rulesAgeMs: 90_000,
            leased: { counters: 2, units: 30 },
          }),
          c: reportOf({ atMs: NOW_MS - 180_000, breakers: { us: 'open' }, rulesAgeMs: 500_000 }),
        },
      ),
      eu: metricsOf({}, { a: reportOf({ breakers: { us: 'open' }, leased: { counters: 1, units: 5 } }) }),
    });
    expect(lines).toContain('weir_breaker_state{region="us",state="open"} 1');
    expect(lines).toContain('weir_breaker_state{region="us",state="closed"} 1');
    expect(lines).toContain('weir_rules_version_age_seconds 90');
    expect(lines).toContain('weir_leases_counters 3');
    expect(lines).toContain('weir_leases_units 35');
    expect(lines).toContain('weir_published_total{region="us"} 12');
  });
});

describe('while no region answers', () => {
  const gone = { us: undefined, eu: undefined };
  const stored = {
    sums: new Map([['fallback\topen\ttimeout', 7]]),
    reports: new Map([['b', reportOf({ breakers: { us: 'open', eu: 'open' }, rulesAgeMs: 5_000 })]]),
  };
  const own = ['a', reportOf({ breakers: { us: 'open', eu: 'closed' } })] as const;

  it('the sums in Postgres are there, under a store of their own', async () => {
    const lines = await linesOf(gone, { readStored: async () => stored });
    expect(lines).toContain('weir_fallback_total{step="open",reason="timeout",store="_postgres"} 7');
    expect(lines).toContain('weir_region_up{region="us"} 0');
    expect(lines).toContain('weir_breaker_state{region="us",state="open"} 1');
    expect(lines).toContain('weir_rules_version_age_seconds 5');
  });

  it('the isolate that was asked reports its own breakers', async () => {
    const lines = await linesOf(gone, { own, readStored: async () => stored });
    expect(lines).toContain('weir_breaker_state{region="us",state="open"} 2');
    expect(lines).toContain('weir_breaker_state{region="eu",state="open"} 1');
    expect(lines).toContain('weir_breaker_state{region="eu",state="closed"} 1');
  });

  it('what nobody knows is absent, and not 0', async () => {
    const text = (await linesOf(gone, { readStored: async () => undefined })).join('\n');
    expect(text).not.toMatch(/breaker_state|rules_version_age|leases|isolates|published|_postgres/);
    expect(text).toContain('weir_deadline_seconds 0.25');
  });
});

it('Postgres is not asked while all regions answer, except when it is awake anyway', async () => {
  let asked = 0;
  const readStored = async () => {
    asked += 1;
    return undefined;
  };
  await linesOf({ us: metricsOf({}) }, { readStored });
  expect(asked).toBe(0);
  await linesOf({ us: metricsOf({}) }, { readStored, readsStored: true });
  expect(asked).toBe(1);
});

it('OTLP has the same values as cumulative sums, gauges and histograms', async () => {
  const sums = { 'billedCommands\tus': 7, 'decision\tb1': 2, 'decision\tb12': 1, 'decision\tsum': 1_500_000 };
  const { resourceMetrics } = toOtlp(await familiesOf({ us: metricsOf(sums) }), NOW_MS);
  const metrics = resourceMetrics[0]?.scopeMetrics[0]?.metrics ?? [];
  const attributes = (pairs: Record<string, string>) =>
    Object.entries(pairs).map(([key, stringValue]) => ({ key, value: { stringValue } }));
  const timeUnixNano = '1800000000000000000';
  expect(metrics.find(({ name }) => name === 'weir.billed.commands')).toMatchObject({
    sum: {
      aggregationTemporality: 2,
      isMonotonic: true,
      dataPoints: [{ attributes: attributes({ region: 'us', store: 'us' }), timeUnixNano, asDouble: 7 }],
    },
  });
  expect(metrics.find(({ name }) => name === 'weir.decision')).toMatchObject({
    unit: 's',
    histogram: {
      dataPoints: [
        {
          count: '3',
          sum: 1.5,
          bucketCounts: ['0', '2', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '1'],
          explicitBounds: expect.arrayContaining([0.00025, 1]),
        },
      ],
    },
  });
  expect(metrics.find(({ name }) => name === 'weir.region.up')).toMatchObject({
    gauge: { dataPoints: [{ asDouble: 1 }] },
  });
});
