// All views of the page, and what is checked in each of them.
import axe from 'axe-core';
import type { Page } from 'playwright-core';

export interface KnownView {
  readonly name: string;
  /** The part of the address after /_weir/. */
  readonly path: string;
  /** A button to press first. */
  readonly press?: string;
  /** A selector for something that is there once the view is. */
  readonly ready: string;
}

const EXPLAIN = 'form.explain button';

export interface Seen {
  readonly ruleId: string;
  readonly caller: string;
  readonly evil: string;
}

export const viewsWith = ({ ruleId, caller, evil }: Seen): KnownView[] => [
  { name: 'overview', path: '#/overview', ready: 'section:has-text("Denied most") table' },
  { name: 'rules', path: '#/rules', ready: 'tr:has-text("alert(2)")' },
  { name: 'a rule', path: `#/rules/${ruleId}`, ready: '.sentence:has-text("5 every hour")' },
  { name: 'a new rule', path: '#/rules/new', ready: 'form.rule' },
  { name: 'callers', path: '#/callers', ready: 'main li' },
  { name: 'callers found', path: '#/callers?q=onerror', ready: 'td:has-text("tenant")' },
  { name: 'a caller', path: `#/callers/ip/${caller}`, ready: 'meter' },
  {
    name: 'a caller with an evil name',
    path: `#/callers/user/${encodeURIComponent(evil)}`,
    ready: '.badge:has-text("deny list")',
  },
  { name: 'violators', path: '#/violators', ready: `td:has-text("${caller}")` },
  { name: 'denials', path: '#/denials', ready: 'td:has-text("logins")' },
  { name: 'explain', path: '#/explain', press: EXPLAIN, ready: '.way .verdict' },
  { name: 'history', path: '#/history', ready: '.changes li' },
  { name: 'health', path: '#/health', ready: 'td:has-text("redis:us")' },
  { name: 'cost', path: '#/cost', ready: 'tr:has-text("Together"):has-text("$14.87")' },
];

const NO_RULE = '00000000-0000-4000-8000-000000000000';

/** Before anything was entered, and before any request came. */
export const EMPTY_VIEWS: readonly KnownView[] = [
  {
    name: 'overview',
    path: '#/overview',
    ready: 'section:has-text("Nobody was denied") >> text=npm run demo',
  },
  { name: 'rules', path: '#/rules', ready: '.empty:has-text("every request passes") a' },
  {
    name: 'a rule that is gone',
    path: `#/rules/${NO_RULE}`,
    ready: '.notice:has-text("There is no such rule")',
  },
  { name: 'a new rule', path: '#/rules/new', press: 'form.rule > button', ready: '.notice' },
  { name: 'callers', path: '#/callers', ready: '.empty:has-text("Search for a caller")' },
  { name: 'callers found', path: '#/callers?q=ada', ready: 'a:has-text("look at user ada")' },
  {
    name: 'a caller',
    path: '#/callers/ip/192.0.2.1',
    ready: '.empty:has-text("No rule limits this caller")',
  },
  { name: 'violators', path: '#/violators', ready: '.empty:has-text("Nobody was denied") a' },
  { name: 'denials', path: '#/denials', ready: '.empty:has-text("No denied request")' },
  { name: 'explain', path: '#/explain', press: EXPLAIN, ready: '.way li:has-text("Rules none applies")' },
  { name: 'history', path: '#/history', ready: '.empty:has-text("Nothing has been changed yet")' },
  { name: 'health', path: '#/health', ready: '.empty:has-text("None since this isolate started")' },
];

const GONE = 'Postgres does not answer';

/** While Postgres is down, a view says what failed, and shows everything that does not need Postgres. */
export const viewsWithoutPostgres = ({ ruleId, caller }: Seen): KnownView[] => [
  { name: 'overview', path: '#/overview', ready: `section:has-text("${GONE}")` },
  { name: 'overview, regions', path: '#/overview', ready: 'td:has-text("answers")' },
  { name: 'rules', path: '#/rules', ready: `.notice:has-text("${GONE}")` },
  { name: 'a rule', path: `#/rules/${ruleId}`, ready: `.notice:has-text("${GONE}")` },
  {
    name: 'a new rule',
    path: '#/rules/new',
    press: 'form.rule > button',
    ready: `.notice:has-text("${GONE}")`,
  },
  { name: 'callers', path: '#/callers', ready: `.notice:has-text("${GONE}")` },
  { name: 'callers found', path: '#/callers?q=ada', ready: `.notice:has-text("${GONE}") + .hint a` },
  { name: 'a caller', path: `#/callers/ip/${caller}`, ready: `.head:has-text("${GONE}")` },
  { name: 'a caller, limits', path: `#/callers/ip/${caller}`, ready: 'meter' },
  { name: 'violators', path: '#/violators', ready: `.notice:has-text("${GONE}")` },
  { name: 'denials', path: '#/denials', ready: `.notice:has-text("${GONE}")` },
  { name: 'a user, usage', path: '#/callers/user/ada', ready: `figure .notice:has-text("${GONE}")` },
  {
    name: 'explain',
    path: '#/explain',
    press: EXPLAIN,
    // The error is not about the session, because explaining changes nothing.
    ready: `.notice:has-text("${GONE}"):not(:has-text("session"))`,
  },
  { name: 'history', path: '#/history', ready: `.notice:has-text("${GONE}")` },
  { name: 'health', path: '#/health', ready: 'tr:has-text("postgres") .badge.bad' },
];

/** What axe-core finds wrong with the view, without the rules that are advice only. */
export async function violationsIn(page: Page): Promise<string[]> {
  // Two views that differ only after the # in the address are in the same document.
  if (!(await page.evaluate("'axe' in globalThis"))) await page.evaluate(axe.source);
  return page.evaluate(async () => {
    const run: typeof axe.run = Reflect.get(globalThis, 'axe').run;
    return (await run({ resultTypes: ['violations'] })).violations.map(
      ({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target).join(', ')}`,
    );
  });
}
