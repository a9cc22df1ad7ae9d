// One caller: its limits and what is left of them, live and without a charge; its denials and usage; and actions.

import { get, me, type Page } from '../api.ts';
import { type Chart, chart } from '../chart.ts';
import { button, type Child, empty, fill, h, hrefOf, link, table } from '../dom.ts';
import { ago, count, moment, span } from '../format.ts';
import { live } from '../live.ts';
import { fillMinutes, fillSteps, type Points, type Series } from '../series.ts';
import { actionsOf, openOverride } from './caller-actions.ts';
import { badge, callerLink, callerOf } from './overview.ts';
import { failed, type View } from './view.ts';
import { countedAsOf, type Subject, type Violator } from './violators.ts';

export interface CallerLimit {
  readonly ruleId: string;
  readonly name: string;
  readonly policy: string;
  readonly resource: string;
  readonly scope: string;
  readonly isOverride: boolean;
  readonly validUntil: string | null;
  readonly limit: number;
  readonly windowSeconds: number;
  readonly window: string | null;
  readonly subject: { readonly scope: string; readonly id: string };
  readonly left: { readonly allowed: boolean; readonly remaining: number; readonly resetAt: string } | null;
}

/** A limit that counts the address of a request, whoever sends it. */
interface AddressLimit
  extends Pick<
    CallerLimit,
    'ruleId' | 'name' | 'resource' | 'scope' | 'limit' | 'windowSeconds' | 'window'
  > {}

export interface CallerLimits {
  readonly dependsOnAddress: readonly AddressLimit[];
  readonly caller: Readonly<Record<'ip' | 'userId' | 'apiKeyId' | 'tenantId' | 'tier', string | null>>;
  readonly listed: 'allow' | 'deny' | null;
  readonly limits: readonly CallerLimit[];
}

export interface Who {
  readonly scope: string;
  readonly id: string;
}

const EVERY_MS = 2_000;
const MAX_POINTS = 300;
const DAY_MS = 86_400_000;
const HOUR = 3_600;

export const showCallerPage: View = (main, { parts: [scope = '', id = ''], signal }) => {
  const who = { scope, id };
  const facts = h('p', {});
  const limits = h('div', {});
  const denied = h('div', {});
  const events = h('div', {});
  const keyName = h('span', {});
  const used = usedChart(signal);
  const denials = chart({
    title: 'Denied, each minute of the last hour',
    unit: 'a minute',
    curves: [{ label: 'Denied', colour: 'bad', isArea: true }],
    signal,
  });
  let isFirst = true;
  const sign = live({
    everyMs: EVERY_MS,
    from: 'the counters of each region',
    read: (within) => get<CallerLimits>('/limits', { scope, subject: id }, within),
    show: (now) => {
      fill(facts, factsOf(now));
      fill(limits, limitTable(now, who, used));
      used.add(now.limits);
      if (isFirst && me.mayChange) actions.hidden = false;
      isFirst = false;
    },
    signal,
  });
  const actions = h('div', { class: 'actions', hidden: true }, actionsOf(who));
  const recordsSign = live({
    everyMs: 5_000,
    from: 'Postgres',
    read: (within) => readRecords(who, within),
    show: ([series, recent, byRule, behind]) => {
      denials.show(fillMinutes(series));
      fill(denied, deniedList(byRule.items), scope === 'ip' && behindList(behind.items));
      fill(events, eventTable(recent.items));
    },
    signal,
  });
  fill(
    main,
    h('div', { class: 'head' }, h('h1', {}, `${KINDS[scope] ?? scope} `, keyName, h('code', {}, id)), sign),
    facts,
    me.mayChange ? actions : null,
    h('h2', {}, 'Limits'),
    limits,
    h('div', { class: 'columns' }, used.element, denials.element),
    usageCurve(who, signal),
    h('div', { class: 'head' }, h('h2', {}, 'Denials'), recordsSign),
    denied,
    events,
    // The sample is found by the caller's own ids.
    scope !== 'ip' &&
      h('p', {}, h('a', { href: sampleOf(who) }, 'Requests in full'), ', a sample of the last day'),
  );
  if (scope === 'apiKey') void showName(keyName, id, signal);
};

const sampleOf = ({ scope, id }: Who) => `${hrefOf(['denials'])}?${new URLSearchParams({ [scope]: id })}`;

/** A key that is gone has no name, and its records stay. */
async function showName(place: HTMLElement, id: string, signal: AbortSignal): Promise<void> {
  const key = await get<{ name: string }>(`/keys/${id}`, {}, signal).catch(() => undefined);
  if (key?.name) fill(place, `${key.name} `);
}

const KINDS: Readonly<Record<string, string>> = {
  user: 'User',
  apiKey: 'API key',
  tenant: 'Tenant',
  ip: 'IP address',
};

interface DenialEvent extends Subject {
  readonly at: string;
  readonly ruleId: string;
  readonly ruleName: string;
  readonly tenantId: string | null;
  readonly userId: string | null;
  readonly apiKeyId: string | null;
  readonly apiKeyName: string | null;
  readonly count: number;
}

/** Denials of a user, key or tenant are its own, whatever the rules count. An address has those of rules that count it. */
const readRecords = ({ scope, id }: Who, signal: AbortSignal) => {
  const whose = scope === 'ip' ? { scope, subject: id } : { [scope]: id };
  return Promise.all([
    get<Series>('/events/series', { since: '1h', ...whose }, signal),
    get<Page<DenialEvent>>('/events', { since: '24h', ...whose, limit: 10 }, signal),
    get<Page<Violator>>('/violators', { since: '24h', groupBy: 'rule', ...whose, limit: 10 }, signal),
    get<Page<Violator>>('/violators', { since: '24h', ...whose, limit: 10 }, signal),
  ]);
};

/** What a person asks first: how often, by which rule, and counted as whom. */
const deniedList = (byRule: readonly Violator[]): Child =>
  byRule.length > 0 &&
  h(
    'ul',
    { class: 'denied-by' },
    byRule.map((rule) =>
      h(
        'li',
        {},
        `Denied ${times(rule.count)} in the last day by `,
        callerLink('rule', rule.subject, rule.name),
        (rule.countedAs?.length ?? 0) > 0 && [', as ', countedAsOf(rule)],
        '.',
      ),
    ),
  );

const times = (number: number) => (number === 1 ? 'once' : `${count(number)} times`);

/** The callers with a name that rules counted by this address. */
function behindList(behind: readonly Violator[]): Child {
  const named = behind.filter(({ scope }) => scope !== 'ip');
  if (named.length === 0) return null;
  const shown = named.map((one, i) => [
    i > 0 && ', ',
    `${one.scope} `,
    callerOf(one),
    ` (${count(one.count)})`,
  ]);
  return h('p', {}, 'These callers were denied at this address: ', shown, '.');
}

const factsOf = ({ caller, listed }: CallerLimits): Child => [
  caller.tier ? ['Tier ', h('b', {}, caller.tier), '. '] : 'No tier. ',
  caller.tenantId && ['Tenant ', link(['callers', 'tenant', caller.tenantId], caller.tenantId), '. '],
  caller.apiKeyId &&
    caller.userId && ['User ', link(['callers', 'user', caller.userId], caller.userId), '. '],
  listed && badge(listed === 'deny' ? 'bad' : 'good', `on the ${listed} list: limits do not matter`),
];

const usedOf = ({ limit, left }: CallerLimit) => (left ? Math.max(0, limit - left.remaining) : 0);

const limitTable = (found: CallerLimits, who: Who, used: UsedChart): Child => [
  ownLimits(found, who, used),
  addressLimits(found.dependsOnAddress),
];

function ownLimits({ limits, dependsOnAddress }: CallerLimits, who: Who, used: UsedChart): Child {
  if (limits.length === 0 && dependsOnAddress.length > 0)
    return empty('What limits this caller depends on the address that it calls from.');
  if (limits.length === 0)
    return empty('No rule limits this caller. ', link(['rules', 'new'], 'Create one'), '.');
  return table('Limits', limits, [
    {
      title: 'Rule',
      cell: (one) => [
        link(['rules', one.ruleId], one.name),
        ' ',
        one.isOverride && badge('', overrideText(one)),
      ],
    },
    { title: 'For', cell: ({ resource }) => h('code', {}, resource) },
    {
      title: 'Limit',
      isNumber: true,
      cell: (one) => `${count(one.limit)} / ${one.window ?? span(one.windowSeconds)}`,
    },
    { title: 'Left', isNumber: true, cell: leftOf },
    {
      title: '',
      cell: (one) => [
        button('Curve', () => used.choose(one.policy), {
          class: 'quiet small',
          'aria-label': `Curve of ${one.name}`,
        }),
        me.mayChange &&
          button('Override', () => openOverride(who, one), {
            class: 'small',
            'aria-label': `Override ${one.name}`,
          }),
      ],
    },
  ]);
}

const addressLimits = (limits: readonly AddressLimit[]): Child =>
  limits.length > 0 && [
    h('h3', {}, 'Depends on the address'),
    table('Limits that depend on the address', limits, [
      { title: 'Rule', cell: (one) => link(['rules', one.ruleId], one.name) },
      { title: 'For', cell: ({ resource }) => h('code', {}, resource) },
      {
        title: 'Limit',
        isNumber: true,
        cell: (one) => `${count(one.limit)} / ${one.window ?? span(one.windowSeconds)}`,
      },
      {
        title: 'Counts',
        cell: (one) => (one.scope === 'ip' ? 'each address' : `each ${one.scope}; without one, each address`),
      },
    ]),
  ];

const overrideText = ({ validUntil }: CallerLimit) =>
  validUntil ? `override, ends ${ago(validUntil)}` : 'override';

const leftOf = (one: CallerLimit): Child =>
  one.left === null
    ? 'not known'
    : [
        h('meter', {
          min: 0,
          max: one.limit,
          value: one.left.remaining,
          low: one.limit / 5,
          optimum: one.limit,
          'aria-label': `left of ${one.name}`,
        }),
        ' ',
        h('b', { class: one.left.allowed ? '' : 'denied' }, count(one.left.remaining)),
        !one.left.allowed && ' denied now',
      ];

interface UsedChart extends Chart {
  add(limits: readonly CallerLimit[]): void;
  choose(policy: string): void;
}

/**
 * The used units of one limit, beside the limit. An override continues the curve, because its policy has the same name.
 */
function usedChart(signal: AbortSignal): UsedChart {
  const curves = [
    { label: 'Used', colour: 'accent', isArea: true },
    { label: 'Limit', colour: 'bad' },
  ];
  const drawn = chart({ title: 'Used of the limit, live', unit: 'units', curves, signal });
  const caption = drawn.element.querySelector('figcaption');
  const history = new Map<string, [at: number, used: number, limit: number][]>();
  let chosen: string | undefined;
  const show = () => {
    const points = history.get(chosen ?? '') ?? [];
    const column = (place: 0 | 1 | 2) => points.map((point) => point[place]);
    drawn.show([column(0), column(1), column(2)] satisfies Points);
    if (caption && chosen !== undefined) caption.textContent = `Used of ${chosen}, live`;
  };
  return {
    ...drawn,
    choose(policy) {
      chosen = policy;
      show();
    },
    add(limits) {
      for (const one of limits) {
        const points = history.get(one.policy) ?? [];
        points.push([Date.now() / 1_000, usedOf(one), one.limit]);
        history.set(one.policy, points.slice(-MAX_POINTS));
      }
      const nearest = [...limits].sort((a, b) => usedOf(b) / b.limit - usedOf(a) / a.limit)[0];
      chosen ??= nearest?.policy;
      show();
    },
  };
}

const eventTable = (items: readonly DenialEvent[]): Child =>
  items.length === 0
    ? empty('Not denied in the last day.')
    : table('Last denials', items, [
        { title: 'Minute', cell: ({ at }) => h('time', { datetime: at, title: moment(at) }, ago(at)) },
        { title: 'Rule', cell: ({ ruleId, ruleName }) => link(['rules', ruleId], ruleName) },
        { title: 'Counted as', cell: ({ scope, subject }) => [`${scope} `, callerLink(scope, subject)] },
        { title: 'Caller', cell: whoCalled },
        { title: 'Denied', cell: (one) => count(one.count), isNumber: true },
      ]);

/** By the most exact id. */
const whoCalled = ({ tenantId, userId, apiKeyId, apiKeyName }: DenialEvent): Child => {
  if (apiKeyId) return ['key ', callerLink('apiKey', apiKeyId, apiKeyName)];
  if (userId) return ['user ', callerLink('user', userId)];
  return tenantId ? ['tenant ', callerLink('tenant', tenantId)] : 'not known';
};

/** Weir records usage of callers with a name, not of addresses. */
function usageCurve({ scope, id }: Who, signal: AbortSignal): Child {
  if (scope === 'ip')
    return h('p', { class: 'hint' }, 'Usage is not recorded by address, only by user, key and tenant.');
  const drawn = chart({
    title: 'Admitted, each hour of the last 3 days',
    unit: 'an hour',
    curves: [{ label: 'Admitted', colour: 'good', isArea: true }],
    signal,
  });
  const to = new Date();
  const from = new Date(to.getTime() - 3 * DAY_MS);
  const asked = { groupBy: 'hour', from: from.toISOString(), to: to.toISOString(), limit: 100, [scope]: id };
  void get<Page<{ name: string; requests: number }>>('/usage', asked, signal).then(
    ({ items }) => {
      const counts = items.map(({ name, requests }) => ({ at: name, count: requests }));
      drawn.show(fillSteps({ from: from.toISOString(), to: to.toISOString(), items: counts }, HOUR));
    },
    (error) => {
      if (!signal.aborted) drawn.element.append(failed('Usage could not be read', error));
    },
  );
  return drawn.element;
}
