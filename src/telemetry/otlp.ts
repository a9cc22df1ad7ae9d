// The metrics of the fleet as OTLP over HTTP, in JSON, for systems that Weir pushes to.
import { version } from '../../package.json';
import type { Family, Labels, Point } from './fleet.ts';

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
  const numbers = points.map(({ labels, value = 0 }) => ({
    attributes: attributesOf(labels),
    timeUnixNano,
    asDouble: value,
  }));
  if (type === 'gauge') return { ...common, gauge: { dataPoints: numbers } };
  const temporality = { aggregationTemporality: CUMULATIVE };
  if (type === 'counter')
    return { ...common, sum: { ...temporality, isMonotonic: true, dataPoints: numbers } };
  const dataPoints = points.map((point) => toHistogramPoint(point, timeUnixNano));
  return { ...common, histogram: { ...temporality, dataPoints } };
}

function toHistogramPoint({ labels, histogram }: Point, timeUnixNano: string) {
  const { boundsMs = [], counts = [], sumSeconds = 0 } = histogram ?? {};
  return {
    attributes: attributesOf(labels),
    timeUnixNano,
    // Whole numbers of 64 bits are texts in OTLP's JSON.
    count: String(counts.reduce((total, count) => total + count, 0)),
    sum: sumSeconds,
    bucketCounts: counts.map(String),
    explicitBounds: boundsMs.map((boundMs) => boundMs / 1_000),
  };
}

const attributesOf = (labels: Labels) =>
  Object.entries(labels).map(([key, text]) => ({ key, value: { stringValue: text } }));
