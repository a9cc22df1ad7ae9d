// "Who would this have denied?": shows what another limit would have done to the last day, beside the form that changes
// it.

import { get } from '../api.ts';
import { button, type Child, fill, h, table } from '../dom.ts';
import { type Effect, effectSentences } from '../effect-sentences.ts';
import { count } from '../format.ts';
import { showTrouble } from '../forms.ts';
import { callerLink } from './overview.ts';
import type { Values } from './rule-fields.ts';
import { waiting } from './view.ts';

interface Caller {
  readonly scope: string;
  readonly subject: string;
  readonly admitted: number;
  readonly denied: number;
  readonly atLeast: number;
}

type Answer = Effect & { readonly callers: readonly Caller[] };

const HOW =
  'Weir records usage by hour and denials by minute, but not when within the hour a request came. So ' +
  'these are bounds, as if counters were empty a day ago and callers had sent the same. Requests that other rules ' +
  'denied are not counted. One unit is one request, unless requests have a cost.';

/** `values` are the values in the form now. */
export function wouldDeny(id: string, values: () => Values): HTMLElement {
  const place = h('div', { 'aria-live': 'polite' });
  const ask = button('Who would this have denied?', async () => {
    ask.disabled = true;
    fill(place);
    const read = get<Answer>(`/rules/${encodeURIComponent(id)}/would-deny`, queryOf(values()));
    await waiting(place, 'Postgres', read).then(
      (answer) => fill(place, effectOf(answer)),
      (error) => ask.form && showTrouble(ask.form, place, error),
    );
    ask.disabled = false;
  });
  return h('div', { class: 'would-deny' }, ask, place);
}

const queryOf = (values: Values) => ({
  limit: textOf(values['limit']),
  windowSeconds: textOf(values['windowSeconds']),
  burst: textOf(values['burst']),
  algorithm: textOf(values['algorithm']),
});

const textOf = (value: unknown) => (value === null || value === undefined ? undefined : String(value));

/** Weir records usage of callers with a name, not of addresses. */
const admittedOf = ({ scope, admitted }: Caller) => (scope === 'ip' ? 'not recorded' : count(admitted));

const effectOf = (answer: Answer): Child => [
  h('h3', {}, 'In the last day, with this limit'),
  h(
    'ul',
    {},
    effectSentences(answer).map((sentence) => h('li', {}, sentence)),
  ),
  answer.callers.length > 0 &&
    table('Who would have been denied', answer.callers, [
      { title: 'Caller', cell: ({ scope, subject }) => callerLink(scope, subject) },
      { title: 'Admitted, units', cell: admittedOf, isNumber: true },
      { title: 'Denied, requests', cell: ({ denied }) => count(denied), isNumber: true },
      { title: 'Too many by, units', cell: ({ atLeast }) => `${count(atLeast)} or more`, isNumber: true },
    ]),
  h('p', { class: 'hint' }, HOW),
];
