// Formats numbers and times for people.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export const count = (value: number): string => (value < 100_000 ? whole.format(value) : short.format(value));

export const rate = (value: number): string =>
  value === 0 ? '0' : value < 10 ? value.toFixed(1) : count(Math.round(value));

export const percent = (part: number, all: number): string =>
  all === 0 ? '–' : `${((100 * part) / all).toFixed(part === 0 || part === all ? 0 : 1)} %`;

export function milliseconds(ms: number | undefined): string {
  if (ms === undefined) return '–';
  return ms < 10
    ? `${ms.toFixed(1)} ms`
    : ms < 1_000
      ? `${Math.round(ms)} ms`
      : `${(ms / 1_000).toFixed(1)} s`;
}

/** 3,600 seconds are an hour. */
export function span(seconds: number): string {
  const units = [
    ['day', 86_400],
    ['hour', 3_600],
    ['minute', 60],
    ['second', 1],
  ] as const;
  const [name, size] = units.find(([, one]) => seconds >= one && seconds % one === 0) ?? ['second', 1];
  const number = seconds / size;
  return number === 1 ? name : `${number} ${name}s`;
}

export function ago(moment: string | number, nowMs = Date.now()): string {
  const seconds = Math.round((nowMs - new Date(moment).getTime()) / 1_000);
  if (seconds < -5) return `in ${about(-seconds)}`;
  return seconds < 5 ? 'just now' : `${about(seconds)} ago`;
}

function about(seconds: number): string {
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  return seconds < 48 * 3_600 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} d`;
}

export const moment = (text: string): string => new Date(text).toLocaleString();

/** In the form of `<input type="datetime-local">`, in the time zone of the person. */
export function localInput(ms: number): string {
  const date = new Date(ms);
  return new Date(ms - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

// A change in the history, and the name that people have for the changed item. Pure.

export type JsonRow = Readonly<Record<string, unknown>>;

export interface HistoryItem {
  readonly id: number;
  readonly changeId: number;
  readonly at: string;
  readonly actor: string;
  readonly entity: string;
  readonly entityId: string;
  readonly action: 'created' | 'changed' | 'deleted';
  readonly before: JsonRow | null;
  readonly after: JsonRow | null;
}

const SINGULAR: Readonly<Record<string, string>> = { lists: 'list entry' };

/** The word for one item, such as a rule or a key, instead of its table's name. */
export const kindOf = ({ entity }: HistoryItem): string => SINGULAR[entity] ?? entity.replace(/s$/, '');

/** Shows the id only if the item has no name. */
export function nameOf({ before, after, entityId }: HistoryItem): string {
  const row = after ?? before ?? {};
  const name = row['name'] ?? row['value'];
  return typeof name === 'string' && name !== '' ? name : entityId;
}
