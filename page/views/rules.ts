// Lists all rules: search, filters, and what each has done in the last day.

import { get, me, type Page } from '../api.ts';
import { button, type Child, empty, fill, h, hrefOf, link, table } from '../dom.ts';
import { choiceField, textField } from '../fields.ts';
import { count, percent } from '../format.ts';
import { type Nearness, nearnessOf, type RuleBody, sentenceOf, WHAT_IS_NEAR } from '../rule-sentence.ts';
import type { Traffic } from '../traffic.ts';
import { showEnforcement } from './enforcement.ts';
import { badge } from './overview.ts';
import { failed, type View, waiting } from './view.ts';

export interface Rule extends RuleBody {
  readonly id: string;
  readonly name: string;
  readonly action: string;
  readonly scope: string;
  readonly enabled: boolean;
  readonly priority: number;
}

const PAGE = 50;
const DAY_MS = 86_400_000;
const FILTERS = ['q', 'scope', 'enabled'] as const;

/** Counts by the id of the rule. Rules that are not among the busiest have no count. */
export interface LastDay {
  readonly denied: ReadonlyMap<string, number>;
  readonly admitted: ReadonlyMap<string, number>;
}

/** Undefined if it could not be read. */
interface Done {
  readonly lastDay: Promise<LastDay | undefined>;
  readonly traffic: Promise<Traffic | undefined>;
}

export const showRules: View = async (main, { query, signal }) => {
  const asked = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? '']));
  const form = filterForm(asked);
  const list = h('div', {});
  const enforcement = h('div', { class: 'aside' });
  const troubles = h('div', {});
  fill(
    main,
    h(
      'div',
      { class: 'head' },
      h('h1', {}, 'Rules'),
      me.mayChange && link(['rules', 'new'], h('span', { class: 'primary as-button' }, 'New rule')),
      enforcement,
    ),
    troubles,
    form,
    list,
    h('p', { class: 'hint' }, WHAT_IS_NEAR),
  );
  /** The table does not wait for these. */
  const beside = <T>(what: string, work: Promise<T>) =>
    work.catch((error) => {
      if (!signal.aborted) troubles.append(failed(what, error));
      return undefined;
    });
  void beside('Whether rules are enforced', showEnforcement(enforcement, signal));
  const done: Done = {
    lastDay: beside('What rules admitted and denied', readLastDay(signal)),
    traffic: beside('How near the limits are', get<Traffic>('/traffic', {}, signal)),
  };
  const show = async (cursor?: string): Promise<void> => {
    const read = get<Page<Rule>>('/rules', { ...asked, limit: PAGE, cursor }, signal);
    const { items, nextCursor } = await waiting(list, 'Postgres', read);
    if (items.length === 0 && cursor === undefined) return fill(list, noRules(asked));
    list.append(ruleTable(items, done));
    if (nextCursor === null) return;
    const more = button(`More than these ${PAGE}`, () => {
      more.remove();
      void show(nextCursor);
    });
    list.append(more);
  };
  await show();
};

function filterForm(asked: Readonly<Record<string, string>>): HTMLFormElement {
  const form = h(
    'form',
    { class: 'filters', role: 'search' },
    textField({ name: 'q', label: 'Name', attributes: { type: 'search' } }, asked['q']),
    choiceField(
      { name: 'scope', label: 'Scope' },
      [['', 'any'], 'global', 'tenant', 'user', 'apiKey', 'ip'],
      asked['scope'],
    ),
    choiceField(
      { name: 'enabled', label: 'State' },
      [
        ['', 'any'],
        ['true', 'enabled'],
        ['false', 'switched off'],
      ],
      asked['enabled'],
    ),
    h('button', {}, 'Search'),
  );
  const go = () => {
    const query = new URLSearchParams([...new FormData(form)].map(([name, value]) => [name, String(value)]));
    location.hash = `${hrefOf(['rules'])}?${query}`;
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    go();
  });
  form.addEventListener('change', go);
  return form;
}

export async function readLastDay(signal: AbortSignal): Promise<LastDay> {
  const from = new Date(Date.now() - DAY_MS).toISOString();
  const [violators, usage] = await Promise.all([
    get<Page<{ subject: string; count: number }>>(
      '/violators',
      { groupBy: 'rule', since: '24h', limit: 1_000 },
      signal,
    ),
    get<Page<{ id: string; requests: number }>>('/usage', { groupBy: 'rule', from, limit: 1_000 }, signal),
  ]);
  return {
    denied: new Map(violators.items.map(({ subject, count: denied }) => [subject, denied])),
    admitted: new Map(usage.items.map(({ id, requests }) => [id, requests])),
  };
}

const ruleTable = (rules: readonly Rule[], { lastDay, traffic }: Done) =>
  table('Rules', rules, [
    {
      title: 'Rule',
      cell: (rule) => [link(['rules', rule.id], rule.name), h('p', { class: 'hint' }, sentenceOf(rule))],
    },
    { title: 'State', cell: stateOf },
    {
      title: 'Admitted, 24 h',
      isNumber: true,
      cell: ({ id }) => later(lastDay, (day) => count(day.admitted.get(id) ?? 0)),
    },
    { title: 'Denied, 24 h', isNumber: true, cell: ({ id }) => later(lastDay, (day) => deniedOf(day, id)) },
    {
      title: 'Near the limit',
      isNumber: true,
      cell: ({ name }) => later(traffic, ({ rules: all }) => nearOf(nearnessOf(all[name]))),
    },
  ]);

function deniedOf({ denied, admitted }: LastDay, id: string): string {
  const number = denied.get(id) ?? 0;
  return number === 0 ? '0' : `${count(number)} (${percent(number, number + (admitted.get(id) ?? 0))})`;
}

const nearOf = ({ near, checks }: Nearness): Child =>
  checks === 0 ? 'no checks' : badge(near === 0 ? 'good' : 'warn', percent(near, checks));

function later<T>(reading: Promise<T | undefined>, show: (value: T) => Child): HTMLElement {
  const place = h('span', {}, '…');
  void reading.then((value) => fill(place, value === undefined ? '–' : show(value)));
  return place;
}

export const stateOf = ({ enabled, action, subjects = [], validUntil }: Rule): Child => [
  enabled ? (action === 'log' ? badge('warn', 'shadow') : badge('good', action)) : badge('', 'switched off'),
  ' ',
  subjects.length > 0 && badge('', 'override'),
  ' ',
  validUntil && Date.parse(validUntil) < Date.now() && badge('', 'over'),
];

const noRules = (asked: Readonly<Record<string, string>>) =>
  Object.values(asked).some(Boolean)
    ? empty('No rule is like that. ', link(['rules'], 'Show all rules'), '.')
    : empty(
        'There are no rules: every request passes. ',
        link(['rules', 'new'], 'Create the first one'),
        '.',
      );
