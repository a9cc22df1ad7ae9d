// Shows the state of each part, as the answering isolate sees it.

import { health } from '../api.ts';
import { type Child, empty, fill, h, table } from '../dom.ts';
import { ago, count } from '../format.ts';
import { live } from '../live.ts';
import { badge } from './overview.ts';
import type { View } from './view.ts';

interface Health {
  readonly status: string;
  readonly version: string;
  readonly region: string | null;
  readonly rules: { readonly version: string | null; readonly count: number };
  readonly parts: Readonly<Record<string, string>>;
  readonly errors: Readonly<Record<string, string | undefined>>;
  readonly isolate: {
    readonly breakers: Readonly<Record<string, string>>;
    readonly isolates: Readonly<Record<string, number>>;
    readonly degraded: readonly Degraded[];
    readonly origins: readonly Origin[];
  };
}

interface Degraded {
  readonly reason: string;
  readonly fallback?: string;
  readonly region?: string;
  readonly count: number;
}

interface Origin {
  readonly route: string | null;
  readonly origin: string;
  readonly state: 'ok' | 'failing' | 'unknown';
  readonly lately: Readonly<Record<string, number>>;
  readonly lastFailure: string | null;
  readonly lastFailureAt: string | null;
}

export const showHealth: View = (main, { signal }) => {
  const body = h('div', {});
  const sign = live({
    everyMs: 5_000,
    from: 'each part to answer',
    read: (within) => health<Health>(within),
    show: (now) => fill(body, healthOf(now)),
    signal,
  });
  fill(main, h('div', { class: 'head' }, h('h1', {}, 'Health'), sign), body);
};

const healthOf = ({ status, version, region, rules, parts, errors, isolate }: Health): Child => [
  h(
    'p',
    {},
    badge(
      status === 'ok' ? 'good' : 'bad',
      status === 'ok' ? 'all parts answer' : 'degraded: requests go on',
    ),
    ` Weir ${version}, nearest region ${region ?? 'not known'}, ${rules.count} rules, version ${rules.version ?? 'none'}.`,
  ),
  table('Parts', Object.entries(parts), [
    { title: 'Part', cell: ([name]) => h('b', {}, name) },
    { title: 'State', cell: ([, state]) => badge(state === 'ok' ? 'good' : 'bad', state) },
    {
      title: 'What it said',
      cell: ([name, state]) => errors[name] ?? (state === 'ok' ? '' : NEXT[name.split(':')[0] ?? '']),
    },
  ]),
  h('h2', {}, 'This isolate'),
  table('Breakers', Object.entries(isolate.breakers), [
    { title: 'Region', cell: ([name]) => name },
    { title: 'Breaker', cell: ([, state]) => badge(state === 'closed' ? 'good' : 'bad', state) },
    { title: 'Isolates there', cell: ([name]) => isolate.isolates[name] ?? 0, isNumber: true },
  ]),
  h('h3', {}, 'Degraded answers'),
  degradedTable(isolate.degraded),
  h('h3', {}, 'Origins'),
  originTable(isolate.origins),
];

/** Advice for a part that does not work and has reported no error. */
const NEXT: Readonly<Record<string, string>> = {
  redis: 'Other regions count for it meanwhile. Look at its Upstash console.',
  postgres: 'The rules in force stay; changes must wait. Look at the Neon console.',
  rules: 'No rules are known: POST /_weir/admin/publish, and look at Postgres and KV.',
};

const degradedTable = (incidents: readonly Degraded[]): Child =>
  incidents.length === 0
    ? empty('None since this isolate started.')
    : table('Degraded answers', incidents, [
        { title: 'Reason', cell: ({ reason }) => h('code', {}, reason) },
        { title: 'Region', cell: ({ region }) => region },
        { title: 'Decided by', cell: ({ fallback }) => fallback },
        { title: 'Answers', cell: (one) => count(one.count), isNumber: true },
      ]);

const STATES = { ok: 'good', failing: 'bad', unknown: '' } as const;

const originTable = (origins: readonly Origin[]): Child =>
  table('Origins', origins, [
    { title: 'Route', cell: ({ route }) => h('b', {}, route ?? 'default') },
    { title: 'Origin', cell: ({ origin }) => h('code', {}, origin) },
    { title: 'State', cell: ({ state }) => badge(STATES[state], state) },
    { title: 'Last 20 requests', cell: ({ lately }) => latelyOf(lately) },
    {
      title: 'Last failure',
      cell: ({ lastFailure, lastFailureAt }) =>
        lastFailure && lastFailureAt && `${lastFailure}, ${ago(lastFailureAt)}`,
    },
  ]);

const latelyOf = (lately: Origin['lately']) =>
  Object.entries(lately)
    .map(([result, number]) => `${number} ${result}`)
    .join(', ') || 'none';
