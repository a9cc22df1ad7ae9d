// The metrics of the fleet as Prometheus reads them: text, one line for each series.

import { version } from '../../package.json';
import type { Family, Histogram, Labels, Point } from './fleet.ts';

export const PROMETHEUS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

export const toPrometheus = (families: readonly Family[]): string =>
  families
    .filter(({ points }) => points.length > 0)
    .map((family) => `${headOf(family)}${family.points.map((point) => linesOf(family.name, point)).join('')}`)
    .join('');

const headOf = ({ name, help, type }: Family) => `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;

function linesOf(name: string, { labels, value, histogram }: Point): string {
  if (!histogram) return line(name, labels, value ?? 0);
  const { sumSeconds, counts } = histogram;
  return [
    ...bucketsOf(histogram).map(([le, count]) => line(`${name}_bucket`, { ...labels, le }, count)),
    line(`${name}_sum`, labels, sumSeconds),
    line(`${name}_count`, labels, totalOf(counts)),
  ].join('');
}

const totalOf = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0);

/** Each bucket also contains the counts of all buckets below it. */
function bucketsOf({ boundsMs, counts }: Histogram): [le: string, count: number][] {
  let below = 0;
  return counts.map((count, place) => {
    below += count;
    const boundMs = boundsMs[place];
    return [boundMs === undefined ? '+Inf' : String(boundMs / 1_000), below];
  });
}

function line(name: string, labels: Labels, value: number): string {
  const texts = Object.entries(labels).map(([label, text]) => `${label}="${escaped(text)}"`);
  return `${name}${texts.length > 0 ? `{${texts.join(',')}}` : ''} ${value}\n`;
}

const escaped = (text: string) =>
  text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');

// The metrics of the fleet as OTLP over HTTP, in JSON, for systems that Weir pushes to.

const CUMULATIVE = 2;
const TIMEOUT_MS = 10_000;

export async function pushOtlp(url: string, families: readonly Family[], nowMs: number): Promise<void> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(toOtlp(families, nowMs)),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  await answer.body?.cancel();
  if (!answer.ok) throw new OtlpError(`OTLP_URL answered ${answer.status}`);
}

export class OtlpError extends Error {
  override readonly name = 'OtlpError';
}

export function toOtlp(families: readonly Family[], nowMs: number) {
  const timeUnixNano = `${Math.floor(nowMs)}000000`;
  const metrics = families
    .filter(({ points }) => points.length > 0)
    .map((family) => toMetric(family, timeUnixNano));
  return {
    resourceMetrics: [
      {
        resource: { attributes: attributesOf({ 'service.name': 'weir', 'service.version': version }) },
        scopeMetrics: [{ scope: { name: 'weir', version }, metrics }],
      },
    ],
  };
}

/** Drops the suffixes, because OTLP has fields for kind and unit. */
const nameOf = (name: string) => name.replace(/_total$|_seconds$/, '').replaceAll('_', '.');

function toMetric({ name, help, type, points }: Family, timeUnixNano: string) {
  const unit = name.endsWith('_seconds') ? 's' : '1';
  const common = { name: nameOf(name), description: help, unit };
  const dataPoints = points.map(({ labels, value = 0, histogram }) => ({
    attributes: attributesOf(labels),
    timeUnixNano,
    ...(histogram ? bucketFields(histogram) : { asDouble: value }),
  }));
  if (type === 'gauge') return { ...common, gauge: { dataPoints } };
  const sums = { aggregationTemporality: CUMULATIVE, dataPoints };
  return type === 'counter'
    ? { ...common, sum: { ...sums, isMonotonic: true } }
    : { ...common, histogram: sums };
}

const bucketFields = ({ boundsMs, counts, sumSeconds }: Histogram) => ({
  // Whole numbers of 64 bits are texts in OTLP's JSON.
  count: String(totalOf(counts)),
  sum: sumSeconds,
  bucketCounts: counts.map(String),
  explicitBounds: boundsMs.map((boundMs) => boundMs / 1_000),
});

const attributesOf = (labels: Labels) =>
  Object.entries(labels).map(([key, text]) => ({ key, value: { stringValue: text } }));
