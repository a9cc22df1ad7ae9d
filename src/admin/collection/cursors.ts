// Cursors: where a page begins, as text that clients send back unchanged.
import { textFromBase64, textToBase64Url } from '../../core/digest.ts';
import { AdminError } from '../problems.ts';

export const toCursor = (position: readonly string[]): string => textToBase64Url(JSON.stringify(position));

export function parseCursor(cursor: string, length: number): readonly string[] {
  const position = decode(cursor);
  const isPosition = Array.isArray(position) && position.length === length && position.every(isText);
  if (!isPosition) throw badCursor();
  return position;
}

export const badCursor = () =>
  new AdminError({
    status: 400,
    code: 'invalid-request',
    title: 'The request is not valid',
    errors: [{ pointer: 'cursor', detail: 'is not the nextCursor of another page' }],
  });

function decode(cursor: string): unknown {
  try {
    return JSON.parse(textFromBase64(cursor));
  } catch {
    return undefined;
  }
}

const isText = (value: unknown): value is string => typeof value === 'string';
