// What a change may do to a row, and what is written of it. Read-only fields may come back unchanged.

import type { BodySchemas, Values } from '../../authoring/bodies.ts';
import { invalidBody, invalidRequest, ProblemError } from '../../http/internal-requests.ts';
import type { Row, Target } from '../../rules/tables/repository.ts';
import { fieldErrors } from '../problems.ts';
import type { Collection, Deployment } from './declaration.ts';

/** The fields of a row that people may see, as JSON. */
export const toShown = ({ shown }: BodySchemas, row: Row): Values =>
  Object.fromEntries(Object.keys(shown.shape).map((field) => [field, toJson(row[field])]));

const toJson = (value: unknown) => (value instanceof Date ? value.toISOString() : value);

/** Compares values as JSON. The order of keys does not matter, but the order of list entries does. */
export const isSame = (a: unknown, b: unknown): boolean =>
  JSON.stringify(a, sortKeys) === JSON.stringify(b, sortKeys);

function sortKeys(_: string, value: unknown): unknown {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Throws if a new value names something that this deployment does not have. */
export function expectFits(
  { fits }: Collection,
  deployment: Deployment,
  { values, before }: { readonly values: Values; readonly before?: Row },
): void {
  if (!fits || !(fits.field in values) || isSame(values[fits.field], before?.[fits.field])) return;
  const errors = fits.errors(values[fits.field], deployment);
  if (errors.length === 0) return;
  throw invalidBody(errors.map(({ pointer, detail }) => ({ pointer: `#${pointer}`, detail })));
}

export interface RowChange {
  readonly collection: Collection;
  readonly deployment: Deployment;
  readonly target: Target;
  readonly before: Row;
  /** The body after validation. */
  readonly given: Values;
}

/** The values to write, and to which revisions of the row; undefined: any. Throws if the change is not allowed. */
export function takeChanges({ collection, deployment, target, before, given }: RowChange) {
  if (target.revisions && !target.revisions.includes(before.revision)) throw changedSince(before);
  const isWritten = ([field]: [string, unknown]) => collection.bodies.isWritten(field);
  const values = Object.fromEntries(Object.entries(given).filter(isWritten));
  const sentBack = Object.entries(given).filter((entry) => !isWritten(entry) && entry[1] !== undefined);
  expectUnchanged(sentBack, toShown(collection.bodies, before));
  expectFits(collection, deployment, { values, before });
  // A client that sends read-only fields back means exactly the row that it was shown.
  return { values, revisions: sentBack.length > 0 ? [before.revision] : target.revisions };
}

/** These fields are texts and numbers. A body may have anything in them, of any depth, so it is not walked through. */
function expectUnchanged(sentBack: readonly [string, unknown][], shown: Values): void {
  const changed = sentBack.filter(([field, value]) => value !== shown[field]);
  if (changed.length === 0) return;
  throw invalidBody(
    changed.map(([field]) => ({
      pointer: `#/${field}`,
      detail: `cannot be changed: it is ${JSON.stringify(shown[field])}. Leave it out, or give it as it is`,
    })),
  );
}

// Applies a patch: only the given fields change, and the resulting row must be valid as a whole.

/** If several clients patch a row at once, one of them succeeds in each attempt. */
const MAX_ATTEMPTS = 20;

export interface Patch extends Omit<RowChange, 'before'> {
  /** Throws if there is no such row. */
  readonly find: (id: string) => Promise<Row>;
  readonly save: Save;
}

/** Undefined if the row has changed since `before` was read. */
export type Save = (target: Target, before: Row, values: Values) => Promise<Row | undefined>;

/** Retries if the row changes between read and write, because the merged row must be validated again. */
export async function applyPatch({ find, save, ...change }: Patch): Promise<Row> {
  const { bodies } = change.collection;
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const before = await find(change.target.id);
    const { values } = takeChanges({ ...change, before });
    const changes = changesOf(bodies, toShown(bodies, before), values);
    if (Object.keys(changes).length === 0) return before;
    const patched = await save({ ...change.target, revisions: [before.revision] }, before, changes);
    if (patched) return patched;
  }
  throw new ProblemError({ status: 409, code: 'changed-since', title: 'Too many are changing it at once' });
}

/** The given fields, and the fields that change with them. No other field is written. */
function changesOf(bodies: BodySchemas, shown: Values, given: Values): Values {
  const written = Object.entries(shown).filter(([field]) => bodies.isWritten(field));
  const changed = Object.entries(given).map(([field, value]) => [field, toJson(value)]);
  const merged = Object.fromEntries([...written, ...changed]);
  const result = bodies.replace.safeParse(merged);
  if (!result.success) throw invalidBody(fieldErrors(result.error, merged));
  return Object.fromEntries(
    Object.entries(result.data).filter(([field, value]) => !isSame(value, shown[field])),
  );
}

// The revision of a row as an ETag, and the headers If-Match and If-None-Match.

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

export const changedSince = ({ revision }: { readonly revision: number }) =>
  new ProblemError(
    {
      status: 412,
      code: 'precondition-failed',
      title: 'It has changed since',
      detail: 'Get it again, look at what has changed, and repeat the change with the new ETag.',
    },
    { ETag: toETag(revision) },
  );
