// Shows what happens now: traffic, decision times, regions, who is denied most, and the last changes.

import { get, type Page } from '../api.ts';
import { type Chart, chart } from '../chart.ts';
import { type Child, empty, fill, h, link, table, withId } from '../dom.ts';
import type { HistoryItem } from '../format.ts';
import { count, milliseconds, rate } from '../format.ts';
import { live } from '../live.ts';
import {
  decisionQuantile,
  type Rates,
  ratesBetween,
  regionRates,
  sampleBefore,
  type Traffic,
} from '../traffic.ts';
import { changeLine } from './history.ts';
import type { View } from './view.ts';
import type { Violator } from './violators.ts';

const EVERY_MS = 3_000;
/** Isolates flush their sums in batches, so a rate over a short time would jump. */
const RATE_SECONDS = 12;
const TIMES_SECONDS = 60;
/** Ten minutes. */
const MAX_SAMPLES = 200;

/** Kept while other views are open, so that the curve is complete when the person returns. */
const samples: Traffic[] = [];
const rates: Rates[] = [];

export const showOverview: View = (main, { signal }) => {
  const tiles = h('dl', { class: 'tiles' });
  const regions = h('div', {});
  const violators = h('div', {});
  const changes = h('div', {});
  const curve = chart({
    title: 'Requests a second',
    unit: 'a second',
    curves: [
      { label: 'Admitted', colour: 'good', isArea: true },
      { label: 'Denied', colour: 'bad' },
      { label: 'Degraded', colour: 'warn' },
    ],
    signal,
  });
  const sign = live({
    everyMs: EVERY_MS,
    from: 'the Redis of each region',
    read: (within) => get<Traffic>('/traffic', {}, within),
    show: (traffic) => showTraffic(traffic, { tiles, regions, curve }),
    signal,
  });
  const recordsSign = live({
    everyMs: 2 * EVERY_MS,
    from: 'Postgres',
    read: (within) => readRecords(within),
    show: ([denied, changed]) => {
      fill(violators, violatorList(denied.items));
      fill(changes, changeList(changed.items));
    },
    signal,
  });
  fill(
    main,
    h('div', { class: 'head' }, h('h1', {}, 'Overview'), sign),
    tiles,
    curve.element,
    h('h2', {}, 'Regions'),
    regions,
    h(
      'div',
      { class: 'columns' },
      h(
        'section',
        {},
        h('div', { class: 'head' }, h('h2', {}, 'Denied most, last hour'), recordsSign),
        violators,
      ),
      h('section', {}, h('h2', {}, 'Last changes'), changes),
    ),
  );
  if (rates.length > 0) showCurve(curve);
};

const readRecords = (signal: AbortSignal) =>
  Promise.all([
    get<Page<Violator>>('/violators', { since: '1h', limit: 6 }, signal),
    get<Page<HistoryItem>>('/history', { limit: 6 }, signal),
  ]);

interface Places {
  readonly tiles: HTMLElement;
  readonly regions: HTMLElement;
  readonly curve: Chart;
}

function showTraffic(traffic: Traffic, { tiles, regions, curve }: Places): void {
  samples.push(traffic);
  if (samples.length > MAX_SAMPLES) samples.shift();
  const before = sampleBefore(samples, RATE_SECONDS) ?? traffic;
  const longBefore = sampleBefore(samples, TIMES_SECONDS) ?? traffic;
  const now = ratesBetween(before, traffic);
  if (samples.length > 1) rates.push(now);
  if (rates.length > MAX_SAMPLES) rates.shift();
  const isFirst = samples.length < 2;
  const shown = (value: number) => (isFirst ? '…' : rate(value));
  fill(
    tiles,
    tile('Requests', shown(now.total), 'a second'),
    tile('Admitted', shown(now.admitted), 'a second', 'good'),
    tile('Denied', shown(now.denied), 'a second', now.denied > 0 ? 'bad' : ''),
    tile('Degraded', shown(now.degraded), 'a second', now.degraded > 0 ? 'warn' : ''),
    tile('Decision p50', milliseconds(decisionQuantile(longBefore, traffic, 0.5)), 'last minute'),
    tile('Decision p99', milliseconds(decisionQuantile(longBefore, traffic, 0.99)), 'last minute'),
  );
  fill(regions, regionTable(before, traffic), unconfirmed(traffic));
  showCurve(curve);
}

const showCurve = (curve: Chart) =>
  curve.show([
    rates.map(({ atSeconds }) => Math.round(atSeconds)),
    rates.map(({ admitted }) => rounded(admitted)),
    rates.map(({ denied }) => rounded(denied)),
    rates.map(({ degraded }) => rounded(degraded)),
  ]);

const rounded = (value: number) => Math.round(value * 10) / 10;

const tile = (name: string, value: string, unit: string, kind = '') =>
  h(
    'div',
    { class: `tile ${kind}` },
    h('dt', {}, name),
    h('dd', {}, h('b', {}, value), ' ', h('small', {}, unit)),
  );

const sumOf = (values: Readonly<Record<string, number>>) =>
  Object.values(values).reduce((sum, value) => sum + value, 0);

const regionTable = (before: Traffic, traffic: Traffic) =>
  table('Regions', traffic.regions, [
    { title: 'Region', cell: ({ name }) => h('b', {}, name) },
    { title: 'Redis', cell: ({ up }) => badge(up ? 'good' : 'bad', up ? 'answers' : 'does not answer') },
    {
      title: 'Breakers',
      cell: ({ breakers }) => {
        const open = (breakers['open'] ?? 0) + (breakers['half-open'] ?? 0);
        const all = sumOf(breakers);
        return badge(open > 0 ? 'bad' : 'good', open > 0 ? `${open} of ${all} open` : 'closed');
      },
    },
    { title: 'Isolates', cell: ({ isolates }) => count(isolates), isNumber: true },
    {
      title: 'Rules',
      cell: ({ publication }) => publicationOf(publication, traffic),
      isNumber: true,
    },
    {
      title: 'Requests/s',
      cell: ({ name }) => rate(sumOf(regionRates(before, traffic, name))),
      isNumber: true,
    },
    {
      title: 'Denied/s',
      cell: ({ name }) => rate(regionRates(before, traffic, name)['denied'] ?? 0),
      isNumber: true,
    },
  ]);

function publicationOf(publication: number | null, { regions }: Traffic): Child {
  if (publication === null) return '–';
  const newest = Math.max(...regions.map((region) => region.publication ?? 0));
  return publication < newest
    ? badge('warn', `no. ${publication}, not yet no. ${newest}`)
    : `no. ${publication}`;
}

export const badge = (kind: string, text: string): HTMLElement => h('span', { class: `badge ${kind}` }, text);

const unconfirmed = ({ rulesAgeSeconds }: Traffic) =>
  rulesAgeSeconds > 0 &&
  h(
    'p',
    { class: 'notice warn' },
    `An isolate has decided by unconfirmed rules for ${Math.round(rulesAgeSeconds)} s.`,
  );

const violatorList = (violators: readonly Violator[]) =>
  violators.length === 0
    ? empty(
        'Nobody was denied. Is there traffic? ',
        h('code', {}, 'npm run demo'),
        ' sends some to a local Weir.',
      )
    : table('Denied most', violators, [
        { title: 'Caller', cell: callerOf },
        { title: 'Kind', cell: ({ scope }) => scope },
        { title: 'Denied', cell: (one) => count(one.count), isNumber: true },
      ]);

/** `other` and `all` are not callers that have a page. A key has a name, with its id beside it. */
export const callerLink = (scope: string, subject: string, name?: string | null): Child =>
  subject === 'other' || scope === 'global'
    ? subject
    : withId(
        link(
          [scope === 'rule' ? 'rules' : 'callers', ...(scope === 'rule' ? [] : [scope]), subject],
          name ?? subject,
        ),
        name,
        subject,
      );

/** The caller, and the tenant that it belongs to. */
export const callerOf = ({ scope = '', subject, name, tenantId }: Violator): Child => [
  callerLink(scope, subject, name),
  tenantId && scope !== 'tenant' && [' of ', callerLink('tenant', tenantId)],
];

const changeList = (changes: readonly HistoryItem[]) =>
  changes.length === 0
    ? empty('Nothing has been changed yet. ', link(['rules', 'new'], 'Create a rule'), '.')
    : h(
        'ul',
        { class: 'changes' },
        changes.map((change) => h('li', {}, changeLine(change))),
      );
