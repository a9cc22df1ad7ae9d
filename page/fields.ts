// Fields of forms, each with its label and a hint.

import { type Attributes, button, type Child, h } from './dom.ts';
import { localInput } from './format.ts';

export interface FieldOptions {
  readonly name: string;
  readonly label: string;
  readonly hint?: string | undefined;
  readonly attributes?: Attributes;
}

const wrap = ({ label, hint }: FieldOptions, input: HTMLElement, ...more: readonly Child[]) =>
  h('label', {}, h('span', {}, label), input, more, hint && h('span', { class: 'hint' }, hint));

export const textField = (options: FieldOptions, value = ''): HTMLLabelElement =>
  wrap(options, h('input', { name: options.name, value, autocomplete: 'off', ...options.attributes }));

export interface Bounds {
  readonly min?: number | undefined;
  readonly max?: number | undefined;
  /** False for a whole number. */
  readonly isFraction?: boolean | undefined;
}

export const numberField = (
  { attributes, ...options }: FieldOptions,
  { min, max, isFraction = false }: Bounds,
  value: number | null,
): HTMLLabelElement => {
  const kind = { type: 'number', inputmode: isFraction ? 'decimal' : 'numeric' };
  const bounds = { min, max, step: isFraction ? 'any' : 1 };
  return textField({ ...options, attributes: { ...kind, ...bounds, ...attributes } }, String(value ?? ''));
};

export const areaField = (options: FieldOptions, value = ''): HTMLLabelElement =>
  wrap(
    options,
    h('textarea', { name: options.name, rows: 2, spellcheck: 'false', ...options.attributes }, value),
  );

export const choiceField = (
  options: FieldOptions,
  choices: readonly (string | readonly [value: string, label: string])[],
  value = '',
): HTMLLabelElement => {
  const all = choices.map((choice) => (typeof choice === 'string' ? ([choice, choice] as const) : choice));
  const items = all.map(([one, label]) => h('option', { value: one, selected: one === value }, label));
  return wrap(options, h('select', { name: options.name, ...options.attributes }, items));
};

export const flagField = (options: FieldOptions, isSet: boolean): HTMLLabelElement =>
  h(
    'label',
    { class: 'flag' },
    h('input', { type: 'checkbox', name: options.name, checked: isSet }),
    h('span', {}, options.label),
    options.hint && h('span', { class: 'hint' }, options.hint),
  );

const HOUR_MS = 3_600_000;
const ENDS = [
  ['1 hour', HOUR_MS],
  ['8 hours', 8 * HOUR_MS],
  ['1 day', 24 * HOUR_MS],
  ['7 days', 168 * HOUR_MS],
] as const;

/** When something ends, with the usual answers one click away. */
export function untilField(name: string, label: string, afterMs: number = HOUR_MS): HTMLElement {
  const value = localInput(Date.now() + afterMs);
  const min = localInput(Date.now());
  const input = h('input', { type: 'datetime-local', name, value, min, required: true });
  const set = (ms: number) => {
    input.value = localInput(Date.now() + ms);
  };
  const quick = ENDS.map(([text, ms]) => button(text, () => set(ms), { class: 'quiet small' }));
  return h(
    'div',
    { class: 'until' },
    h('label', {}, h('span', {}, label), input),
    h('div', { class: 'quick' }, quick),
  );
}

export const textOf = (form: HTMLFormElement, name: string): string => {
  const value = new FormData(form).get(name);
  return typeof value === 'string' ? value.trim() : '';
};

/** The value of `untilField` in the form of the API. */
export const momentOf = (form: HTMLFormElement, name: string): string =>
  new Date(textOf(form, name)).toISOString();

/** Null if the field is empty. */
export const numberOf = (form: HTMLFormElement, name: string): number | null =>
  textOf(form, name) === '' ? null : Number(textOf(form, name));
