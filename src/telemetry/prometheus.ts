// The metrics of the fleet as Prometheus reads them: text, one line for each series.
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
  const total = counts.reduce((sum, count) => sum + count, 0);
  return [
    ...bucketsOf(histogram).map(([le, count]) => line(`${name}_bucket`, { ...labels, le }, count)),
    line(`${name}_sum`, labels, sumSeconds),
    line(`${name}_count`, labels, total),
  ].join('');
}

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
