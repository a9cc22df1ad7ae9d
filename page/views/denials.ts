// Why a request was denied: found by the id that its answer had, or in the list of the sample.

import { ApiError, get, type Page } from '../api.ts';
import { type Child, empty, fill, h, hrefOf, link, table } from '../dom.ts';
import { textField } from '../fields.ts';
import { ago, count, moment, span } from '../format.ts';
import { callerLink } from './overview.ts';
import { type View, waiting } from './view.ts';
import type { Subject } from './violators.ts';

interface DenyingRule extends Subject {
  readonly id: string;
  readonly name: string;
  readonly resource: string;
  readonly limit: number;
  readonly windowSeconds: number;
  readonly cost: number;
  readonly remaining: number;
  readonly retryAfterMs: number | null;
}

interface DeniedRequest {
  readonly requestId: string;
  readonly at: string;
  readonly status: number;
  readonly code: string;
  readonly method: string;
  readonly route: string;
  readonly region: string;
  readonly tenantId: string | null;
  readonly userId: string | null;
  readonly apiKeyId: string | null;
  readonly apiKeyName: string | null;
  readonly rules: readonly DenyingRule[];
}

const FILTERS = ['rule', 'tenant', 'user', 'apiKey'] as const;

export const showDenials: View = async (main, { parts: [id], query, signal }) => {
  const form = h(
    'form',
    { class: 'filters', role: 'search' },
    textField({ name: 'id', label: 'Id of the request (X-Weir-Request, CF-Ray)' }, id ?? ''),
    ...FILTERS.map((name) => textField({ name, label: LABELS[name] }, query.get(name) ?? '')),
    h('button', {}, 'Search'),
  );
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const given = [...new FormData(form)].map(([name, value]) => [name, String(value).trim()] as const);
    const asked = new URLSearchParams(
      given.filter(([name, value]) => name !== 'id' && value !== '').map((one) => [...one]),
    );
    const wanted = given.find(([name]) => name === 'id')?.[1] ?? '';
    location.hash = wanted === '' ? `${hrefOf(['denials'])}?${asked}` : hrefOf(['denials', wanted]);
  });
  const place = h('div', {});
  fill(main, h('div', { class: 'head' }, h('h1', {}, 'Denials')), form, place);
  const filter = Object.fromEntries(FILTERS.map((name) => [name, query.get(name)]));
  const work = id === undefined ? readList(filter, signal) : readOne(id, signal);
  fill(place, await waiting(place, 'Postgres', work));
};

const LABELS = { rule: 'Rule', tenant: 'Tenant', user: 'User', apiKey: 'API key' } as const;

async function readOne(id: string, signal: AbortSignal): Promise<Child> {
  try {
    return oneOf(await get<DeniedRequest>(`/denials/${encodeURIComponent(id)}`, {}, signal));
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    return empty(
      'The sample does not have this request: it is older than a day, less than a minute old, or one of very many. ',
      'The page of a ',
      link(['callers'], 'caller'),
      ' shows all its denials, by minute.',
    );
  }
}

async function readList(
  filter: Readonly<Record<string, string | null>>,
  signal: AbortSignal,
): Promise<Child> {
  const { items } = await get<Page<DeniedRequest>>('/denials', { ...filter, limit: 50 }, signal);
  if (items.length === 0) return empty('No denied request of the last day is like that.');
  return [
    h('p', { class: 'hint' }, 'A sample of the last day, newest first. Of a flood, it has a small part.'),
    table('Denied requests', items, [
      { title: 'Request', cell: ({ requestId }) => link(['denials', requestId], requestId) },
      { title: 'When', cell: ({ at }) => h('time', { datetime: at, title: moment(at) }, ago(at)) },
      { title: 'Caller', cell: whoCalled },
      { title: 'Denied by', cell: deniedBy },
    ]),
  ];
}

const deniedBy = ({ rules, code }: DeniedRequest): Child =>
  rules.length === 0 ? code : rules.map(({ id, name }, i) => [i > 0 && ', ', callerLink('rule', id, name)]);

const oneOf = (request: DeniedRequest): Child => {
  const { requestId, at, status, code, method, route, region, rules } = request;
  return h(
    'ol',
    { class: 'way' },
    step('Request', [
      h('code', {}, requestId),
      ', ',
      h('time', { datetime: at }, moment(at)),
      ` (${ago(at)})`,
    ]),
    step('Sent', `${method}, to the route ${route}, near the region ${region}`),
    step('Caller', whoCalled(request)),
    rules.map((rule) => step('Rule', ruleText(rule), 'bad')),
    h('li', { class: 'bad verdict' }, h('b', {}, 'Answer'), ` ${status} ${code}`),
  );
};

const step = (title: string, body: Child, kind = '') =>
  h('li', { class: kind }, h('b', {}, title), ' ', body);

const ruleText = (rule: DenyingRule): Child => [
  callerLink('rule', rule.id, rule.name),
  ` for ${rule.resource}: ${count(rule.limit)} every ${span(rule.windowSeconds)}, counted as ${rule.scope} `,
  callerLink(rule.scope, rule.subject),
  `. ${count(rule.remaining)} were left, and the request took ${rule.cost}. `,
  rule.retryAfterMs === null
    ? 'No wait would have helped.'
    : `It could pass after ${Math.ceil(rule.retryAfterMs / 1_000)} s.`,
];

/** By each id that is known. */
function whoCalled({ tenantId, userId, apiKeyId, apiKeyName }: DeniedRequest): Child {
  const known = [
    apiKeyId && ['key ', callerLink('apiKey', apiKeyId, apiKeyName)],
    userId && ['user ', callerLink('user', userId)],
    tenantId && ['tenant ', callerLink('tenant', tenantId)],
  ].filter(Boolean);
  return known.length === 0 ? 'not known by an id' : known.map((one, i) => [i > 0 && ', ', one]);
}
