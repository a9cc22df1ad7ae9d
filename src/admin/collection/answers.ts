// The answers of a collection's operations.
import type { BodySchemas, Values } from '../../rules/tables/body-schemas.ts';
import type { Row } from '../../rules/tables/repository.ts';
import { AdminError } from '../problems.ts';
import type { PublishedChange } from '../publish-change.ts';
import { toETag } from './etags.ts';

/** The fields of a row that people may see, as JSON. */
export const toShown = ({ shown }: BodySchemas, row: Row): Values =>
  Object.fromEntries(Object.keys(shown.shape).map((field) => [field, toJson(row[field])]));

export const toJson = (value: unknown) => (value instanceof Date ? value.toISOString() : value);

export const warningsOf = ({ warnings }: PublishedChange) => (warnings.length > 0 ? { warnings } : {});

export const json = (body: Values, status = 200, headers: Record<string, string> = {}): Response =>
  Response.json(body, { status, headers: { 'Cache-Control': 'no-store', ...headers } });

export const changedSince = ({ revision }: Row) =>
  new AdminError(
    {
      status: 412,
      code: 'precondition-failed',
      title: 'It has changed since',
      detail: 'Get it again, look at what has changed, and repeat the change with the new ETag.',
    },
    { ETag: toETag(revision) },
  );
