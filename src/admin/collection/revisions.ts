// The revision of a row as an ETag, and the If-Match header.

import { textFromBase64, textToBase64Url } from '../../core/digest.ts';
import { invalidRequest } from '../../http/internal-problems.ts';

export const toETag = (revision: number): string => `"${revision}"`;

/** The revisions that If-Match allows; undefined: any. */
export function allowedRevisions(request: Request): readonly number[] | undefined {
  const tags = parseTags(request, 'If-Match');
  return tags === 'any' ? undefined : tags;
}

export function isKnown(request: Request, revision: number): boolean {
  const tags = parseTags(request, 'If-None-Match');
  return tags !== undefined && (tags === 'any' || tags.includes(revision));
}

// Accepts weak tags, because a proxy that compresses an answer makes its tag weak. The revision still names the same
// row.
const TAG = /^(?:W\/)?"([^"]*)"$/;
/** Hundreds of tags; nobody has a use for more. */
const MAX_LENGTH = 8_192;

function parseTags(request: Request, header: 'If-Match' | 'If-None-Match') {
  const text = request.headers.get(header);
  if (text === null) return undefined;
  if (text.trim() === '*') return 'any';
  if (text.length > MAX_LENGTH) throw malformed(header);
  return text.split(',').map((item) => {
    const tag = TAG.exec(item.trim())?.[1];
    if (tag === undefined) throw malformed(header);
    return toRevision(tag);
  });
}

/** No row has the revision -1: a tag that is not one of ours matches nothing. */
const toRevision = (tag: string) => (/^\d{1,15}$/.test(tag) ? Number(tag) : -1);

const malformed = (header: string) =>
  invalidRequest([{ pointer: header, detail: 'must be * or ETags in quotes, such as "42"' }]);

// Cursors: where a page begins, as text that clients send back unchanged.

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
