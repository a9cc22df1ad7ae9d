// Explains why a request is limited: paste a curl command or fill in a form, and see which rules apply.

import { post } from '../api.ts';
import { parseCurl } from '../curl.ts';
import { type Child, fill, h, link, table } from '../dom.ts';
import { areaField, textField, textOf } from '../fields.ts';
import { ago, count, span } from '../format.ts';
import { sendOnSubmit } from '../forms.ts';
import { type View, waiting } from './view.ts';

interface Applied {
  readonly id: string;
  readonly name: string;
  /** `log` means that it denies nobody. */
  readonly action: string;
  readonly times: number | null;
  readonly limit: number;
  readonly limitFrom: string;
  readonly windowSeconds: number;
  readonly window: string | null;
  readonly cost: number;
  /** The id is null if it depends on the address, and none was given. */
  readonly subject: { readonly scope: string; readonly id: string | null };
  readonly left: {
    readonly allowed: boolean;
    readonly remaining: number;
    readonly resetAt: string;
    readonly retryAfterMs: number | null;
  } | null;
}

interface Explanation {
  readonly path: string;
  readonly method: string;
  readonly caller: Readonly<Record<'ip' | 'userId' | 'apiKeyId' | 'tenantId' | 'tier', string | null>>;
  readonly enforcement: 'on' | 'log';
  readonly listed: 'allow' | 'deny' | null;
  readonly allowedBy: readonly { readonly id: string; readonly name: string }[];
  readonly applies: readonly Applied[];
  readonly doesNotApply: readonly {
    readonly id: string;
    readonly name: string;
    readonly reason: string;
    readonly detail: string;
  }[];
  readonly doesNotApplyCount: number;
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
const FIELDS = ['method', 'path', 'ip', 'userId', 'apiKey', 'tenantId', 'tier'] as const;

export const showExplain: View = (main) => {
  const result = h('div', { 'aria-live': 'polite' });
  const trouble = h('div', { role: 'alert' });
  const form = h(
    'form',
    { class: 'explain' },
    areaField({
      name: 'curl',
      label: 'Paste a curl command',
      hint: 'Your browser reads it. If it contains a key, Weir looks the key up, and stores it nowhere.',
      attributes: { rows: 3 },
    }),
    h(
      'div',
      { class: 'fields' },
      textField({ name: 'method', label: 'Method', attributes: { list: 'methods' } }, 'GET'),
      h(
        'datalist',
        { id: 'methods' },
        METHODS.map((value) => h('option', { value })),
      ),
      textField({ name: 'path', label: 'Path', attributes: { required: true } }, '/'),
      textField({ name: 'ip', label: 'IP address' }),
      textField({ name: 'userId', label: 'User', hint: 'Read from a pasted token, without verification' }),
      textField({ name: 'apiKey', label: 'API key' }),
      textField({ name: 'tenantId', label: 'Tenant' }),
      textField({ name: 'tier', label: 'Tier' }),
    ),
    trouble,
    h('button', { class: 'primary' }, 'Explain'),
  );
  form.addEventListener('input', (event) => {
    if (event.target instanceof HTMLTextAreaElement) fillFrom(form, event.target.value);
  });
  const explain = async () => {
    const given = FIELDS.map((name) => [name, textOf(form, name)] as const).filter(
      ([, value]) => value !== '',
    );
    const asked = post<Explanation>('/explain', Object.fromEntries(given));
    const explanation = await waiting(trouble, 'the rules and counters', asked);
    fill(trouble);
    fill(result, wayOf(explanation), againstOf(explanation));
  };
  sendOnSubmit({ form, trouble, act: explain });
  fill(main, h('h1', {}, 'Explain'), form, result);
};

function fillFrom(form: HTMLFormElement, text: string): void {
  const pasted = parseCurl(text);
  if (!pasted) return;
  for (const name of FIELDS) {
    const field = form.elements.namedItem(name);
    if (field instanceof HTMLInputElement)
      field.value = name in pasted ? (pasted[name as keyof typeof pasted] ?? '') : '';
  }
}

const wayOf = (explanation: Explanation): Child => {
  const { path, method, caller, listed, allowedBy, applies } = explanation;
  const known = Object.entries(caller).flatMap(([name, value]) => (value ? [`${name} ${value}`] : []));
  return h(
    'ol',
    { class: 'way' },
    step('Request', h('code', {}, `${method} ${path}`)),
    step('Caller', known.join(', ')),
    step(
      'Lists',
      listed ? `on the ${listed} list: rules do not matter` : 'on none',
      listed === 'deny' ? 'bad' : listed ? 'good' : '',
    ),
    allowedBy.map(({ id, name }) => step('Allowed by', link(['rules', id], name), 'good')),
    applies.map((rule) => step('Rule', appliedText(rule), kindOf(rule))),
    listed === null && applies.length === 0 && allowedBy.length === 0 && step('Rules', 'none applies'),
    verdict(explanation),
  );
};

const isOver = ({ left }: Applied) => left !== null && !left.allowed;

const kindOf = (rule: Applied) => (!isOver(rule) ? 'good' : rule.action === 'log' ? '' : 'bad');

const step = (title: string, body: Child, kind = '') =>
  h('li', { class: kind }, h('b', {}, title), ' ', body);

const appliedText = (rule: Applied): Child => [
  link(['rules', rule.id], rule.name),
  `: ${count(rule.limit)} every ${rule.window ?? span(rule.windowSeconds)}`,
  rule.limitFrom === 'tier' && ' (of the tier)',
  rule.times !== null && ` (times ${rule.times})`,
  `, counts ${rule.subject.scope} ${rule.subject.id ?? '(depends on the address)'}, takes ${rule.cost}. `,
  rule.subject.id === null
    ? 'What is left depends on the address.'
    : rule.left
      ? `${count(rule.left.remaining)} left, whole again ${ago(rule.left.resetAt)}.`
      : 'The remaining units are not known.',
  rule.action === 'log' && ' It only records, and denies nobody.',
];

function verdict({ listed, enforcement, applies }: Explanation): HTMLElement {
  const denied = applies.filter((rule) => isOver(rule) && rule.action !== 'log');
  if (listed === 'deny') return step('Answer', 'refused', 'bad verdict');
  const isOpen = applies.some(({ subject, action }) => subject.id === null && action !== 'log');
  if (listed === null && denied.length === 0 && isOpen && enforcement === 'on')
    return step('Answer', 'depends on the address', 'verdict');
  if (listed === 'allow' || denied.length === 0) return step('Answer', 'goes to the origin', 'good verdict');
  if (enforcement === 'log')
    return step('Answer', 'goes to the origin, because every rule only logs now', 'good verdict');
  const waits = denied.map(({ left }) => left?.retryAfterMs ?? null);
  const wait = waits.includes(null)
    ? 'and no wait will help'
    : `try again in ${Math.ceil(Math.max(...waits.map(Number)) / 1_000)} s`;
  return step('Answer', `denied by ${denied.map(({ name }) => name).join(', ')}: ${wait}`, 'bad verdict');
}

const againstOf = ({ doesNotApply, doesNotApplyCount }: Explanation): Child =>
  doesNotApplyCount > 0 &&
  h(
    'details',
    {},
    h('summary', {}, `${count(doesNotApplyCount)} rules do not apply`),
    table('Rules that do not apply', doesNotApply.slice(0, 200), [
      { title: 'Rule', cell: ({ id, name }) => link(['rules', id], name) },
      { title: 'Why', cell: ({ detail }) => detail },
    ]),
  );
