// What the whole fleet has counted so far, as JSON: the page's overview asks every few seconds and shows the
// differences.

import * as z from 'zod';
import type { Family, Point } from '../../telemetry/fleet.ts';
import type { AdminApp, AdminServices } from '../app.ts';
import { addOperation } from '../operation.ts';

const count = z.number().min(0);
const counts = z.record(z.string(), count);

const trafficBody = z
  .strictObject({
    at: z.iso.datetime(),
    regions: z.array(
      z.strictObject({
        name: z.string(),
        up: z.boolean().describe('Whether its Redis answered now. If not, its sums are missing below.'),
        isolates: count.describe('Isolates that have reported lately.'),
        breakers: counts.describe('Isolates by the state of their breaker for this region.'),
        publication: z
          .int()
          .nullable()
          .describe('The number of the publication in force. Null if there is none.'),
        requests: counts.describe('Requests nearest to this region, by result, since counting began.'),
      }),
    ),
    decision: z
      .strictObject({ boundsMs: z.array(z.number()), counts: z.array(count) })
      .describe('Decision times: how many decisions up to each bound, and beyond the last one.'),
    fallbacks: counts.describe(
      'Requests that were not decided by their nearest region and the newest rules, by reason.',
    ),
    rules: z
      .record(z.string(), counts)
      .describe('Checks by the name of the rule and the result; at most 200 names an isolate.'),
    rulesAgeSeconds: z
      .number()
      .describe('The longest time for which an isolate has now decided by unconfirmed rules.'),
  })
  .meta({ id: 'Traffic' });

export function addTrafficRoutes(app: AdminApp, { fleet, regions, now }: AdminServices): void {
  addOperation(
    app,
    {
      id: 'readTraffic',
      call: 'GET /traffic',
      group: 'records',
      summary: 'What all isolates together have counted so far',
      description:
        'Sums that only grow: ask twice, and the difference is the traffic between. Isolates flush them every ' +
        'TELEMETRY_SECONDS. /_weir/metrics has the same for Prometheus.',
      says: 'The sums',
      answer: trafficBody,
    },
    async () => {
      const families = new Map((await fleet()).map((family) => [family.name, family]));
      const pointsOf = (name: string) => families.get(`weir_${name}`)?.points ?? [];
      const of = (name: string, region: string) =>
        pointsOf(name).filter(({ labels }) => labels['region'] === region);
      return {
        at: new Date(now()).toISOString(),
        regions: regions.map(({ name }) => ({
          name,
          up: of('region_up', name)[0]?.value === 1,
          isolates: of('isolates', name)[0]?.value ?? 0,
          breakers: sumBy(of('breaker_state', name), 'state'),
          publication: of('published_total', name)[0]?.value ?? null,
          requests: sumBy(of('requests_total', name), 'result'),
        })),
        decision: addUp(families.get('weir_decision_seconds')),
        fallbacks: sumBy(pointsOf('fallback_total'), 'reason'),
        rules: byRule(pointsOf('checks_total')),
        rulesAgeSeconds: pointsOf('rules_version_age_seconds')[0]?.value ?? 0,
      };
    },
  );
}

function sumBy(points: readonly Point[], label: string): Record<string, number> {
  const sums = new Map<string, number>();
  for (const { labels, value = 0 } of points) {
    const name = labels[label] ?? '';
    sums.set(name, (sums.get(name) ?? 0) + value);
  }
  return Object.fromEntries(sums);
}

const byRule = (points: readonly Point[]): Record<string, Record<string, number>> =>
  Object.fromEntries(
    [...Map.groupBy(points, ({ labels }) => labels['rule'] ?? '')].map(([rule, all]) => [
      rule,
      sumBy(all, 'result'),
    ]),
  );

/** The histogram of all regions together. */
function addUp(family: Family | undefined): { boundsMs: number[]; counts: number[] } {
  const histograms = (family?.points ?? []).flatMap(({ histogram }) => histogram ?? []);
  const boundsMs = [...(histograms[0]?.boundsMs ?? [])];
  const sum = (place: number) => histograms.reduce((all, { counts }) => all + (counts[place] ?? 0), 0);
  return { boundsMs, counts: boundsMs.length === 0 ? [] : [...boundsMs, 0].map((_, place) => sum(place)) };
}
