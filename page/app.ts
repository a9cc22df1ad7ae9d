// The page: shows one view at a time. The part after # in the address names it.
import { messageOf } from './api.ts';
import { fill, h } from './dom.ts';
import { sameIn } from './focus.ts';
import { showCaller, showCallers } from './views/callers.ts';
import { showCost } from './views/cost.ts';
import { showDenials } from './views/denials.ts';
import { showExplain } from './views/explain.ts';
import { showHealth } from './views/health.ts';
import { showHistory } from './views/history.ts';
import { showOverview } from './views/overview.ts';
import { showRule } from './views/rule.ts';
import { showRules } from './views/rules.ts';
import type { View } from './views/view.ts';
import { showViolators } from './views/violators.ts';

const VIEWS: Readonly<Record<string, View>> = {
  overview: showOverview,
  rules: (main, where) => (where.parts.length > 0 ? showRule : showRules)(main, where),
  callers: (main, where) => (where.parts.length > 1 ? showCaller : showCallers)(main, where),
  violators: showViolators,
  denials: showDenials,
  explain: showExplain,
  history: showHistory,
  health: showHealth,
  cost: showCost,
};

/** Nothing, if the address was cut in the middle of a character. */
function decoded(parts: readonly string[]): readonly string[] {
  try {
    return parts.map(decodeURIComponent);
  } catch {
    return [];
  }
}

let left = new AbortController();

async function open(): Promise<void> {
  left.abort();
  left = new AbortController();
  const { signal } = left;
  const [path = '', search = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [name = '', ...parts] = decoded(path.split('/'));
  const known = name in VIEWS ? name : 'overview';
  for (const item of document.querySelectorAll('nav a'))
    if (item.getAttribute('href') === `#/${known}`) item.setAttribute('aria-current', 'page');
    else item.removeAttribute('aria-current');
  const main = document.getElementById('main');
  if (!main) return;
  fill(main);
  document.title = `${known.charAt(0).toUpperCase()}${known.slice(1)} · Weir`;
  try {
    await VIEWS[known]?.(main, { parts, query: new URLSearchParams(search), signal });
  } catch (error) {
    if (!signal.aborted) main.append(h('p', { class: 'notice bad', role: 'alert' }, messageOf(error)));
  }
}

/** A changed filter keeps the focus, because the next view has the same form. */
function focusAfter(opening: () => void): void {
  const main = document.getElementById('main');
  const field = document.activeElement;
  const isFilter = field?.hasAttribute('name') && main?.contains(field);
  opening();
  const again = main && field && isFilter ? sameIn(main, field) : undefined;
  (again ?? main)?.focus({ preventScroll: true });
}

window.addEventListener('hashchange', () => {
  // A dialog belongs to the view that opened it.
  for (const dialog of document.querySelectorAll('dialog')) dialog.close();
  focusAfter(() => void open());
  window.scrollTo(0, 0);
});
// Here the part after # names a view, so the browser cannot follow this link itself.
document.querySelector('.skip')?.addEventListener('click', (event) => {
  event.preventDefault();
  document.getElementById('main')?.focus();
});
void open();
