// The views that can be read without a script: what the page shows, as tables of this moment.
import type { Child } from 'hono/jsx';
import { type PlainView, plainPath } from '../../core/page-paths.ts';
import { type Change, count, kindOf, nameOf, percent, utcMinute } from '../shared/format.ts';
import { nearnessOf, type RuleBody, sentenceOf, WHAT_IS_NEAR } from '../shared/rule-sentence.ts';
import type { Traffic } from '../shared/traffic.ts';
import { type Ask, read, type Told } from './ask.ts';
import { Badge, shown, Table } from './layout.tsx';

export interface ViewOptions {
  readonly ask: Ask;
  readonly query: URLSearchParams;
  readonly health: () => Promise<Response>;
}

type View = (options: ViewOptions) => Promise<Child>;

interface Page<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
}
interface Violator {
  readonly scope?: string;
  readonly subject: string;
  readonly count: number;
  readonly lastAt: string;
  readonly rules: readonly string[];
}
interface Rule extends RuleBody {
  readonly id: string;
  readonly name: string;
}
interface Health {
  readonly status: string;
  readonly parts?: Readonly<Record<string, string>>;
  readonly errors?: Readonly<Record<string, string | undefined>>;
}

const sumOf = (counts: Readonly<Record<string, number>>) =>
  Object.values(counts).reduce((sum, value) => sum + value, 0);

const showOverview: View = async ({ ask }) => {
  const [traffic, violators, changes] = await Promise.all([
    ask<Traffic>('/traffic'),
    ask<Page<Violator>>('/violators', { since: '1h', by: 'all', limit: '10' }),
    ask<Page<Change>>('/history', { limit: '10' }),
  ]);
  return (
    <>
      <h2>Regions</h2>
      {shown(traffic, ({ regions }) => regionTable(regions))}
      <h2>Denied most, last hour</h2>
      {shown(violators, ({ items }) => violatorTable(items))}
      <h2>Last changes</h2>
      {shown(changes, ({ items }) => changeTable(items))}
    </>
  );
};

const regionTable = (regions: Traffic['regions']) => (
  <Table
    caption="Regions"
    rows={regions}
    columns={[
      { title: 'Region', cell: ({ name }) => <b>{name}</b> },
      {
        title: 'Redis',
        cell: ({ up }) => <Badge kind={up ? 'good' : 'bad'}>{up ? 'answers' : 'does not answer'}</Badge>,
      },
      { title: 'Breakers open', cell: ({ breakers }) => openOf(breakers), isNumber: true },
      { title: 'Isolates', cell: ({ isolates }) => count(isolates), isNumber: true },
      { title: 'Rules', cell: ({ publication }) => publication ?? '–', isNumber: true },
      { title: 'Requests so far', cell: ({ requests }) => count(sumOf(requests)), isNumber: true },
      { title: 'Denied so far', cell: ({ requests }) => count(requests['denied'] ?? 0), isNumber: true },
    ]}
  />
);

const openOf = (breakers: Readonly<Record<string, number>>) =>
  `${count((breakers['open'] ?? 0) + (breakers['half-open'] ?? 0))} of ${count(sumOf(breakers))}`;

const violatorTable = (items: readonly Violator[]) =>
  items.length === 0 ? (
    <p class="empty">Nobody was denied in this time. Denials come here within half a minute.</p>
  ) : (
    <Table
      caption="Who was denied most"
      rows={items}
      columns={[
        { title: 'Subject', cell: ({ subject }) => subject },
        { title: 'Kind', cell: ({ scope }) => scope ?? '' },
        { title: 'Denied', cell: (one) => count(one.count), isNumber: true },
        { title: 'Last', cell: ({ lastAt }) => utcMinute(lastAt) },
        { title: 'By the rules', cell: ({ rules }) => rules.join(', ') },
      ]}
    />
  );

const changeTable = (items: readonly Change[]) =>
  items.length === 0 ? (
    <p class="empty">Nothing has been changed yet.</p>
  ) : (
    <Table
      caption="Last changes"
      rows={items}
      columns={[
        { title: 'When', cell: ({ at }) => utcMinute(at) },
        { title: 'Who', cell: ({ actor }) => actor },
        { title: 'What', cell: (change) => `${change.action} ${kindOf(change)} ${nameOf(change)}` },
      ]}
    />
  );

const showRules: View = async ({ ask, query }) => {
  const q = query.get('q') ?? '';
  const [rules, traffic] = await Promise.all([
    ask<Page<Rule>>('/rules', { limit: '50', q, cursor: query.get('cursor') ?? '' }),
    ask<Traffic>('/traffic'),
  ]);
  return (
    <>
      <search>
        <form class="filters" method="get" action={plainPath('rules')}>
          <label>
            <span>Name</span>
            <input type="search" name="q" value={q} />
          </label>
          <button type="submit">Search</button>
        </form>
      </search>
      {shown(rules, ({ items, nextCursor }) => (
        <>
          {ruleTable(items, traffic)}
          {more('rules', { q }, nextCursor)}
        </>
      ))}
      {traffic.kind === 'failed' && shown(traffic, () => null)}
      <p class="hint">{WHAT_IS_NEAR}</p>
    </>
  );
};

const ruleTable = (rules: readonly Rule[], traffic: Told<Traffic>) =>
  rules.length === 0 ? (
    <p class="empty">There is no such rule. Without rules every request passes.</p>
  ) : (
    <Table
      caption="Rules"
      rows={rules}
      columns={[
        { title: 'Rule', cell: ({ name }) => <b>{name}</b> },
        { title: 'What it says', cell: (rule) => sentenceOf(rule) },
        {
          title: 'Near the limit',
          cell: ({ name }) => (traffic.kind === 'told' ? nearOf(traffic.value, name) : '–'),
          isNumber: true,
        },
      ]}
    />
  );

function nearOf({ rules }: Traffic, name: string): string {
  const { near, checks } = nearnessOf(rules[name]);
  return checks === 0 ? 'no checks' : percent(near, checks);
}

const more = (view: PlainView, query: Readonly<Record<string, string>>, cursor: string | null) =>
  cursor !== null && <a href={`${plainPath(view)}?${new URLSearchParams({ ...query, cursor })}`}>More</a>;

const SINCE = ['1h', '24h', '7d', '30d'];

const showViolators: View = async ({ ask, query }) => {
  const since = query.get('since') ?? '24h';
  const cursor = query.get('cursor') ?? '';
  const found = await ask<Page<Violator>>('/violators', { by: 'all', since, limit: '50', cursor });
  return (
    <>
      <p>
        In the last:{' '}
        {SINCE.map((one) => (
          <>
            <a
              href={`${plainPath('violators')}?since=${one}`}
              aria-current={one === since ? 'true' : undefined}
            >
              {one}
            </a>{' '}
          </>
        ))}
      </p>
      {shown(found, ({ items, nextCursor }) => (
        <>
          {violatorTable(items)}
          {more('violators', { since }, nextCursor)}
        </>
      ))}
    </>
  );
};

const showHealth: View = async ({ health }) =>
  shown(await read<Health>(health()), ({ status, parts = {}, errors = {} }) => (
    <>
      <p>
        <Badge kind={status === 'ok' ? 'good' : 'bad'}>
          {status === 'ok' ? 'all parts answer' : 'degraded: requests go on'}
        </Badge>
      </p>
      <Table
        caption="Parts"
        rows={Object.entries(parts)}
        columns={[
          { title: 'Part', cell: ([name]) => <b>{name}</b> },
          {
            title: 'State',
            cell: ([, state]) => <Badge kind={state === 'ok' ? 'good' : 'bad'}>{state}</Badge>,
          },
          { title: 'What it said', cell: ([name]) => errors[name] ?? '' },
        ]}
      />
    </>
  ));

export const PLAIN_RENDERERS: Readonly<Record<PlainView, View>> = {
  overview: showOverview,
  rules: showRules,
  violators: showViolators,
  health: showHealth,
};
