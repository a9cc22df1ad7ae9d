// Lists in pages. A cursor says where a page begins, as text that clients send back unchanged.

import * as z from 'zod';
import { textFromBase64, textToBase64Url } from '../core/digest.ts';
import { invalidRequest } from '../http/internal-requests.ts';

export const pageQuery = (most: number) => ({
  limit: z.coerce.number().int().min(1).max(most).default(50).describe('The size of a page.'),
  cursor: z.string().max(2048).optional().describe('The `nextCursor` of the previous page.'),
});

export const pageOf = <Item extends z.ZodType>(id: string, item: Item) =>
  z
    .strictObject({
      items: z.array(item),
      nextCursor: z.string().nullable().describe('Null on the last page.'),
    })
    .meta({ id });

/** A page of rows, of which one more than `limit` was read if there is a next page. */
export function toPage<Row>(
  rows: readonly Row[],
  limit: number,
  positionOf: (last: Row) => readonly string[],
) {
  const items = rows.slice(0, limit);
  const last = rows.length > limit ? items.at(-1) : undefined;
  return { items, nextCursor: last === undefined ? null : toCursor(positionOf(last)) };
}

export const toCursor = (position: readonly string[]): string => textToBase64Url(JSON.stringify(position));

export function parseCursor(cursor: string, length: number): readonly string[] {
  const position = decode(cursor);
  const isPosition = Array.isArray(position) && position.length === length && position.every(isText);
  if (!isPosition) throw badCursor();
  return position;
}

export const badCursor = () =>
  invalidRequest([{ pointer: 'cursor', detail: 'is not the nextCursor of another page' }]);

function decode(cursor: string): unknown {
  try {
    return JSON.parse(textFromBase64(cursor));
  } catch {
    return undefined;
  }
}

const isText = (value: unknown): value is string => typeof value === 'string';

/** A number in a cursor, which has at most this many digits. */
export function numberIn(text: string | undefined, mostDigits: number): number {
  if (text === undefined || text.length > mostDigits || !/^\d+$/.test(text)) throw badCursor();
  return Number(text);
}

export function momentIn(text: string | undefined): Date {
  const date = new Date(text ?? '');
  if (Number.isNaN(date.getTime())) throw badCursor();
  return date;
}
