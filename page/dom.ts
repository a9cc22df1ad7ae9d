// Creates elements. It sets text as text and never parses it as HTML, so no name or field can become code.
import { keepFocus } from './focus.ts';

export type Child = Node | string | number | null | undefined | false | readonly Child[];
type Listener = (event: Event) => void;
export type Attributes = Readonly<Record<string, string | number | boolean | null | undefined | Listener>>;

export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) setAttribute(element, name, value);
  append(element, children);
  return element;
}

function setAttribute(element: HTMLElement, name: string, value: Attributes[string]): void {
  if (typeof value === 'function') element.addEventListener(name, value);
  else if (value === true) element.setAttribute(name, '');
  else if (value !== false && value !== null && value !== undefined)
    element.setAttribute(name, String(value));
}

function append(element: Element, children: readonly Child[]): void {
  for (const child of children)
    if (isList(child)) append(element, child);
    else if (child !== null && child !== undefined && child !== false)
      element.append(child instanceof Node ? child : String(child));
}

const isList = (child: Child): child is readonly Child[] => Array.isArray(child);

/** Replaces all children. Live views do so every few seconds. */
export function fill(element: Element, ...children: readonly Child[]): void {
  keepFocus(element, () => {
    element.replaceChildren();
    append(element, children);
  });
}

export interface Column<Row> {
  readonly title: string;
  readonly cell: (row: Row) => Child;
  readonly isNumber?: boolean;
}

/** A table whose cells keep their column titles where a narrow screen shows each row as a card. */
export function table<Row>(
  caption: string,
  rows: readonly Row[],
  columns: readonly Column<Row>[],
): HTMLTableElement {
  const head = columns.map(({ title, isNumber }) =>
    h(
      'th',
      { scope: 'col', class: isNumber && 'number' },
      title || h('span', { class: 'hidden' }, 'Actions'),
    ),
  );
  const body = rows.map((row) =>
    h(
      'tr',
      {},
      columns.map(({ title, cell, isNumber }) =>
        h('td', { 'data-title': title, class: isNumber && 'number' }, cell(row)),
      ),
    ),
  );
  return h(
    'table',
    {},
    h('caption', { class: 'hidden' }, caption),
    h('thead', {}, h('tr', {}, head)),
    h('tbody', {}, body),
  );
}

export const button = (label: Child, click: () => void, attributes: Attributes = {}): HTMLButtonElement =>
  h('button', { type: 'button', ...attributes, click }, label);

/** Says what to do where there is nothing to show yet. */
export const empty = (...children: readonly Child[]): HTMLElement => h('p', { class: 'empty' }, children);

/** What has a name and an id. */
export const withId = (named: Child, name: string | null | undefined, id: string): Child =>
  name && name !== id ? [named, ' ', h('small', { class: 'id' }, id)] : named;

export const link = (parts: readonly string[], ...children: readonly Child[]): HTMLAnchorElement =>
  h('a', { href: hrefOf(parts) }, children);

export const hrefOf = (parts: readonly string[]): string => `#/${parts.map(encodeURIComponent).join('/')}`;

export function toast(message: string, kind: 'good' | 'bad' = 'good'): void {
  const place = document.getElementById('toasts');
  const note = h('p', { class: `toast ${kind}` }, message);
  const close = button('×', () => note.remove(), { class: 'quiet', 'aria-label': 'Dismiss' });
  note.append(close);
  place?.append(note);
  // Errors stay until they are read.
  if (kind === 'good') setTimeout(() => note.remove(), 8_000);
}
