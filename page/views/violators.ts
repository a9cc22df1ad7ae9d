// Lists who was denied most.

import { get, type Page } from '../api.ts';
import { button, type Child, empty, fill, h, hrefOf, link, table } from '../dom.ts';
import { choiceField } from '../fields.ts';
import { ago, count, moment } from '../format.ts';
import { callerLink, callerOf } from './overview.ts';
import { type View, type Where, waiting } from './view.ts';

export interface Violator {
  readonly subject: string;
  /** Of a rule or a key. */
  readonly name: string | null;
  /** This and the tenant are present if the question was about callers of all kinds. */
  readonly scope?: string;
  readonly tenantId?: string | null;
  readonly count: number;
  readonly lastAt: string;
  readonly rules: readonly { readonly id: string; readonly name: string }[];
  readonly countedAs?: readonly Subject[];
}

export interface Subject {
  readonly scope: string;
  readonly subject: string;
}

/** As whom rules counted a caller. */
export const countedAsOf = ({ countedAs = [] }: Pick<Violator, 'countedAs'>): Child =>
  countedAs.map(({ scope, subject }, i) => [i > 0 && ', ', `${scope} `, callerLink(scope, subject)]);

const PAGE = 50;

export const showViolators: View = async (main, where) => {
  const groupBy = where.query.get('groupBy') ?? 'all';
  const since = where.query.get('since') ?? '24h';
  const form = h(
    'form',
    { class: 'filters' },
    choiceField(
      { name: 'groupBy', label: 'By' },
      [
        ['all', 'any caller'],
        ['ip', 'IP'],
        ['user', 'user'],
        ['apiKey', 'API key'],
        ['tenant', 'tenant'],
        ['rule', 'rule'],
      ],
      groupBy,
    ),
    choiceField(
      { name: 'since', label: 'In the last' },
      [
        ['1h', 'hour'],
        ['24h', 'day'],
        ['7d', '7 days'],
        ['30d', '30 days'],
      ],
      since,
    ),
  );
  form.addEventListener('change', () => {
    const query = new URLSearchParams([...new FormData(form)].map(([name, value]) => [name, String(value)]));
    location.hash = `${hrefOf(['violators'])}?${query}`;
  });
  const list = h('div', {});
  fill(main, h('div', { class: 'head' }, h('h1', {}, 'Violators')), form, list);
  await showPage(list, { groupBy, since }, where);
};

interface Asked {
  readonly groupBy: string;
  readonly since: string;
}

async function showPage(list: HTMLElement, asked: Asked, where: Where, cursor?: string): Promise<void> {
  const read = get<Page<Violator>>('/violators', { ...asked, limit: PAGE, cursor }, where.signal);
  const { items: found, nextCursor } = await waiting(list, 'Postgres', read);
  const items = found.map((one) => ({ ...one, scope: one.scope ?? asked.groupBy }));
  if (items.length === 0 && cursor === undefined)
    return fill(
      list,
      empty(
        'Nobody was denied in this time. Denials appear here within half a minute. ',
        link(['rules'], 'See the rules'),
        ' that could.',
      ),
    );
  list.append(
    table('Who was denied most', items, [
      {
        title: asked.groupBy === 'rule' ? 'Rule' : 'Caller',
        cell: callerOf,
      },
      { title: 'Kind', cell: ({ scope }) => scope },
      { title: 'Denied', cell: (one) => count(one.count), isNumber: true },
      {
        title: 'Last',
        cell: ({ lastAt }) => h('time', { datetime: lastAt, title: moment(lastAt) }, ago(lastAt)),
      },
      {
        title: 'By the rules',
        cell: ({ rules }) => rules.map(({ id, name }, i) => [i > 0 && ', ', link(['rules', id], name)]),
      },
      { title: 'Counted as', cell: countedAsOf },
    ]),
  );
  if (nextCursor === null) return;
  const more = button('More', () => {
    more.remove();
    void showPage(list, asked, where, nextCursor);
  });
  list.append(more);
}
