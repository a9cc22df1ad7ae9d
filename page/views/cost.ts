// Computes what Weir would cost in a person's own deployment, with the numbers of docs/cost.md.

import { type Cost, costOf, cuHours, type Deployment, freeRequests } from '../cost.ts';
import { fill, h, table } from '../dom.ts';
import { choiceField, numberField } from '../fields.ts';
import { count } from '../format.ts';
import type { View } from './view.ts';

const attributes = { required: true };

export const showCost: View = (main) => {
  const result = h('div', { 'aria-live': 'polite' });
  const form: HTMLFormElement = h(
    'form',
    { class: 'fields' },
    numberField(
      { name: 'millionsOfRequests', label: 'Million requests a month', attributes },
      { min: 0, isFraction: true },
      1,
    ),
    numberField({ name: 'regions', label: 'Regions', attributes }, { min: 1 }, 3),
    numberField(
      {
        name: 'deniedPercent',
        label: 'Denied, percent',
        hint: 'Denials that isolates remember cost no command',
        attributes,
      },
      { min: 0, max: 100, isFraction: true },
      0,
    ),
    choiceField(
      { name: 'checkMinutes', label: 'DATABASE_CHECK_MINUTES', hint: 'Postgres sleeps in between' },
      ['1', '10', '15', '60'],
      '60',
    ),
  );
  const show = () => fill(result, ...answerOf(deploymentIn(form)));
  form.addEventListener('input', show);
  form.addEventListener('submit', (event) => event.preventDefault());
  fill(main, h('h1', {}, 'Cost'), h('p', {}, ABOUT), form, result);
  show();
};

const ABOUT =
  'A month in dollars, on paid plans as of November 2026, with rules of one subject that the nearest region counts.';

function deploymentIn(form: HTMLFormElement): Deployment {
  const values = new FormData(form);
  const of = (name: string) => Number(values.get(name));
  return {
    millionsOfRequests: of('millionsOfRequests'),
    regions: of('regions'),
    deniedPercent: of('deniedPercent'),
    checkMinutes: of('checkMinutes'),
  };
}

const isSensible = ({ millionsOfRequests, regions, deniedPercent }: Deployment) =>
  millionsOfRequests >= 0 && regions >= 1 && deniedPercent >= 0 && deniedPercent <= 100;

const dollars = (amount: number) => `$${amount.toLocaleString('en', DIGITS)}`;
const DIGITS = { minimumFractionDigits: 2, maximumFractionDigits: 2 } as const;

function answerOf(deployment: Deployment): HTMLElement[] {
  if (!isSensible(deployment))
    return [h('p', { class: 'notice bad' }, 'Numbers from 0, at least one region, at most 100 percent.')];
  const cost = costOf(deployment);
  return [
    table('Cost a month', rowsOf(cost, deployment), [
      { title: 'Service', cell: ([service]) => service },
      { title: 'A month', cell: ([, amount]) => dollars(amount), isNumber: true },
      { title: 'Why', cell: ([, , why]) => why },
    ]),
    h(
      'p',
      { class: 'hint' },
      `On free plans: $0 up to ${count(freeRequests())} requests a month in one region, with DATABASE_CHECK_MINUTES of 15 or more. `,
      'KV, queues and rules that count in several regions: docs/cost.md. Look up prices before you rely on them.',
    ),
  ];
}

const rowsOf = (cost: Cost, { checkMinutes }: Deployment): [string, number, string][] => [
  ['Workers', cost.workers, 'with 10 million requests, then by the million'],
  ['Upstash', cost.upstash, 'commands, pay as you go; a fixed plan may be cheaper'],
  ['Neon', cost.neon, `${Math.round(cuHours(checkMinutes))} CU-hours`],
  ['Together', cost.together, ''],
];
