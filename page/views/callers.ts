// Finds a caller, and shows one: its limits, what is left, what was denied and used.
import { get, type Page } from '../api.ts';
import { type Child, empty, fill, h, hrefOf, link, table } from '../dom.ts';
import { textField } from '../fields.ts';
import { showCallerPage } from './caller.ts';
import { callerOf } from './overview.ts';
import { failed, type View, waiting } from './view.ts';
import type { Violator } from './violators.ts';

export const showCaller: View = showCallerPage;

interface Found {
  readonly scope: string;
  readonly id: string;
  readonly about: string;
}

export const showCallers: View = async (main, { query, signal }) => {
  const q = query.get('q') ?? '';
  const form = h(
    'form',
    { class: 'filters', role: 'search' },
    textField(
      {
        name: 'q',
        label: 'User, key, tenant or IP address',
        attributes: { type: 'search', autofocus: q === '' },
      },
      q,
    ),
    h('button', {}, 'Search'),
  );
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const asked = new FormData(form).get('q');
    location.hash = `${hrefOf(['callers'])}?q=${encodeURIComponent(String(asked).trim())}`;
  });
  const list = h('div', {});
  fill(main, h('div', { class: 'head' }, h('h1', {}, 'Callers')), form, list);
  const work = q === '' ? suggestions(signal) : search(q, signal);
  fill(list, await waiting(list, 'Postgres', work));
};

async function suggestions(signal: AbortSignal): Promise<Child> {
  const { items } = await get<Page<Violator>>('/violators', { since: '24h', limit: 10 }, signal);
  if (items.length === 0) return empty('Search for a caller. The page suggests callers that were denied.');
  return [
    h('h2', {}, 'Denied most in the last day'),
    h(
      'ul',
      {},
      items.map((one) => h('li', {}, one.scope, ' ', callerOf(one))),
    ),
  ];
}

async function search(q: string, signal: AbortSignal): Promise<Child> {
  try {
    const found = await findCallers(q, signal);
    return [foundTable(found), elsewhere(q, found)];
  } catch (error) {
    // The limits of a caller are known without Postgres.
    return [failed('The registered callers could not be read', error), elsewhere(q, [])];
  }
}

const foundTable = (found: readonly Found[]) =>
  found.length > 0
    ? table('Callers', found, [
        { title: 'Caller', cell: ({ scope, id }) => link(['callers', scope, id], id) },
        { title: 'Kind', cell: ({ scope }) => scope },
        { title: 'About', cell: ({ about }) => about },
      ])
    : empty('No registered caller matches.');

const elsewhere = (q: string, found: readonly Found[]) =>
  h('p', { class: 'hint' }, 'Not all callers are registered: ', directLinks(q, found));

async function findCallers(q: string, signal: AbortSignal): Promise<Found[]> {
  const ask = <T>(what: string) => get<Page<T>>(`/${what}`, { q, limit: 20 }, signal);
  const [users, keys, tenants] = await Promise.all([
    ask<{ id: string; tier: string | null; tenantId: string | null }>('users'),
    ask<{ id: string; name: string; prefix: string; userId: string | null; disabled: boolean }>('keys'),
    ask<{ id: string; name: string; tier: string | null }>('tenants'),
  ]);
  return [
    ...users.items.map(({ id, tier, tenantId }) => ({
      scope: 'user',
      id,
      about: said({ tier, tenant: tenantId }),
    })),
    ...keys.items.map(({ id, name, prefix, userId, disabled }) => ({
      scope: 'apiKey',
      id,
      about: `${name || 'no name'}, ${prefix}…${disabled ? ', disabled' : ''}${userId ? `, of ${userId}` : ''}`,
    })),
    ...tenants.items.map(({ id, name, tier }) => ({
      scope: 'tenant',
      id,
      about: [name, said({ tier })].filter(Boolean).join(', '),
    })),
  ];
}

const said = (facts: Readonly<Record<string, string | null>>) =>
  Object.entries(facts)
    .flatMap(([name, value]) => (value ? [`${name} ${value}`] : []))
    .join(', ');

/** Users come from tokens, and nobody registers addresses. So the page can show any name that was typed. */
function directLinks(q: string, found: readonly Found[]): Child {
  const isAddress = /^[\d.]+$|:/.test(q);
  const kinds = isAddress ? ['ip', 'user'] : ['user'];
  return kinds
    .filter((scope) => !found.some((one) => one.scope === scope && one.id === q))
    .map((scope) => [link(['callers', scope, q], `look at ${scope} ${q}`), ' ']);
}
