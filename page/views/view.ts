// What every view gets, and sentences that several views share.
import { messageOf } from '../api.ts';
import { h } from '../dom.ts';

export interface Where {
  /** The part of the address after the name of the view. */
  readonly parts: readonly string[];
  readonly query: URLSearchParams;
  /** Aborted when the person leaves the view. */
  readonly signal: AbortSignal;
}

export type View = (main: HTMLElement, where: Where) => void | Promise<void>;

const SLOW_MS = 800;

/** Says what the view waits for, if that takes long. */
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

/** Replaces one failed part of the view. The other parts are still shown. */
export const failed = (what: string, error: unknown): HTMLElement =>
  h('p', { class: 'notice bad', role: 'alert' }, `${what}: ${messageOf(error)}`);
