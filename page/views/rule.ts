// One rule: what it means, what it denies, its form and its history. Or a new rule.

import { call, get, me, patch, post, remove } from '../api.ts';
import { chart } from '../chart.ts';
import { ask } from '../dialog.ts';
import { button, type Child, fill, h, link, toast } from '../dom.ts';
import { count } from '../format.ts';
import { sendOnSubmit } from '../forms.ts';
import { live } from '../live.ts';
import { type RuleBody, sentenceOf } from '../rule-sentence.ts';
import { fillMinutes, type Series } from '../series.ts';
import { showChanges } from './history.ts';
import { changedFields, inputOf, MAIN_FIELDS, MORE_FIELDS, type Values, valuesIn } from './rule-fields.ts';
import { type Rule, stateOf } from './rules.ts';
import { type View, waiting } from './view.ts';
import { wouldDeny } from './would-deny.ts';

type StoredRule = Rule & Values;
type Saved = StoredRule & { readonly warnings?: readonly string[] };

const NEW: Values = {
  scope: 'ip',
  algorithm: 'sliding-window-counter',
  action: 'reject',
  enabled: true,
  priority: 100,
  cost: 1,
  status: 429,
  onUnavailable: 'open',
  percent: 100,
  spill: true,
  lease: true,
  methods: [],
  tiers: [],
  subjects: [],
  alertAt: [],
  resources: [],
  limits: [],
  costs: [],
};

export const showRule: View = async (main, { parts: [id = ''], signal }) => {
  if (id === 'new') return showNew(main);
  const answer = await waiting(
    main,
    'Postgres',
    call(`/_weir/admin/rules/${encodeURIComponent(id)}`, { signal }),
  );
  const rule: StoredRule = await answer.json();
  const etag = answer.headers.get('ETag') ?? undefined;
  const reload = () => showAgain(id, signal);
  const history = h('div', {});
  const denials = chart({
    title: 'Denied by this rule, each minute of the last hour',
    unit: 'a minute',
    curves: [{ label: 'Denied', colour: 'bad', isArea: true }],
    signal,
  });
  const sign = live({
    everyMs: 10_000,
    from: 'Postgres',
    read: (within) => get<Series>('/events/series', { since: '1h', rule: id }, within),
    show: (series) => denials.show(fillMinutes(series)),
    signal,
  });
  fill(
    main,
    h(
      'div',
      { class: 'head' },
      h('h1', {}, rule.name),
      h('code', { class: 'id' }, rule.id),
      h('span', {}, stateOf(rule)),
      sign,
    ),
    h('p', { class: 'sentence' }, sentenceOf(rule)),
    me.mayChange && quickActions(rule, reload),
    denials.element,
    me.mayChange
      ? h(
          'details',
          { class: 'edit' },
          h('summary', {}, 'Edit'),
          ruleForm(
            rule,
            (values) => save(rule, values, etag, reload),
            (values) => wouldDeny(id, values),
          ),
        )
      : null,
    h('h2', {}, 'History'),
    history,
  );
  await showChanges(history, { entity: 'rules', entityId: id }, signal);
};

/** Does nothing if the person has gone to another view meanwhile. */
function showAgain(id: string, signal: AbortSignal): void {
  if (!signal.aborted && location.hash.endsWith(id)) window.dispatchEvent(new HashChangeEvent('hashchange'));
}

function showNew(main: HTMLElement): void {
  const form = ruleForm(NEW, async (values) => {
    // Fields that nobody touched keep the defaults of the API.
    const { name, ...changes } = changedFields(NEW, values);
    const body = { ...changes, ...(name !== '' && name !== undefined && { name }) };
    const saved = await post<Saved>('/rules', body);
    tellSaved(saved, 'Created');
    location.hash = `#/rules/${saved.id}`;
  });
  fill(main, h('h1', {}, 'New rule'), form);
}

async function save(
  rule: StoredRule,
  values: Values,
  etag: string | undefined,
  reload: () => void,
): Promise<void> {
  const changes = changedFields(rule, values);
  if (Object.keys(changes).length === 0) return toast('Nothing was changed.');
  tellSaved(await patch<Saved>(`/rules/${rule.id}`, changes, etag), 'Saved');
  reload();
}

function tellSaved({ warnings = [] }: Saved, what: string): void {
  toast(`${what}, and in force.`);
  for (const warning of warnings) toast(warning, 'bad');
}

function quickActions(rule: StoredRule, reload: () => void): HTMLElement {
  const change = (values: Values, said: string) =>
    patch<Saved>(`/rules/${rule.id}`, values).then(
      (saved) => {
        tellSaved(saved, said);
        reload();
      },
      (error: Error) => toast(error.message, 'bad'),
    );
  const isShadow = rule.action === 'log';
  return h(
    'div',
    { class: 'actions' },
    button(
      rule.enabled ? 'Switch off' : 'Switch on',
      () => void change({ enabled: !rule.enabled }, rule.enabled ? 'Switched off' : 'Switched on'),
    ),
    (isShadow || rule.action === 'reject') &&
      button(
        isShadow ? 'Enforce' : 'Try as shadow',
        () =>
          void change({ action: isShadow ? 'reject' : 'log' }, isShadow ? 'Enforced' : 'Only records now'),
      ),
    link(['history'], 'All changes'),
    button('Delete', () => confirmDelete(rule), { class: 'danger' }),
  );
}

const confirmDelete = (rule: StoredRule) =>
  ask({
    title: 'Delete this rule?',
    detail: `“${rule.name}” no longer limits anybody. The history keeps it, and can bring it back.`,
    submit: 'Delete',
    async act() {
      await remove(`/rules/${rule.id}`);
      toast('Deleted. History can undo it.');
      location.hash = '#/rules';
    },
  });

/** `more` can ask for the values in the form at any time. */
function ruleForm(
  rule: Values,
  act: (values: Values) => Promise<void>,
  more?: (values: () => Values) => HTMLElement,
): HTMLFormElement {
  const preview = h('p', { class: 'sentence', 'aria-live': 'polite' });
  const trouble = h('div', { role: 'alert' });
  const inputs = (fields: typeof MAIN_FIELDS): Child =>
    fields.map((field) => inputOf(field, rule[field.name]));
  const form: HTMLFormElement = h(
    'form',
    { class: 'rule' },
    h('div', { class: 'fields' }, inputs(MAIN_FIELDS)),
    h(
      'details',
      {},
      h('summary', {}, `${count(MORE_FIELDS.length)} more fields`),
      h('div', { class: 'fields' }, inputs(MORE_FIELDS)),
    ),
    preview,
    more?.(() => valuesIn(form)),
    trouble,
    h('button', { class: 'primary' }, 'Save'),
  );
  const show = () => fill(preview, sentenceOf(valuesIn(form) as RuleBody));
  form.addEventListener('input', show);
  sendOnSubmit({ form, trouble, act: () => act(valuesIn(form)) });
  show();
  return form;
}
