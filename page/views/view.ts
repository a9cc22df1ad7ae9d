// What a view is given, and what several views say alike.
import { messageOf } from '../api.ts';
import { h } from '../dom.ts';

export interface Where {
  /** What follows the name of the view in the address. */
  readonly parts: readonly string[];
  readonly query: URLSearchParams;
  /** Aborted when the view is left. */
  readonly signal: AbortSignal;
}

export type View = (main: HTMLElement, where: Where) => void | Promise<void>;

const SLOW_MS = 800;

/** Says what is waited for, should it take long. */
export async function waiting<T>(place: HTMLElement, from: string, work: Promise<T>): Promise<T> {
  const note = h('p', { class: 'hint', role: 'status' }, `Waiting for ${from}…`);
  const timer = setTimeout(() => place.append(note), SLOW_MS);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
    note.remove();
  }
}

/** Stands where a part of the view would be: the others are shown nevertheless. */
export const failed = (what: string, error: unknown): HTMLElement =>
  h('p', { class: 'notice bad', role: 'alert' }, `${what}: ${messageOf(error)}`);
