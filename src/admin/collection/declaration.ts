// The declaration of an admin collection.

import { eq, ilike, or, type SQL, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import * as z from 'zod';
import type { BodySchemas, Values } from '../../authoring/bodies.ts';
import { invalidBody } from '../../http/internal-problems.ts';
import type { RepositoryOptions, Row } from '../../rules/tables/repository.ts';

export interface Collection extends RepositoryOptions {
  /** The path, and the group in the documentation: `rules`. */
  readonly path: string;
  /** The word for one item, in sentences: `rule`. */
  readonly noun: string;
  readonly bodies: BodySchemas;
  /** The field that is the id. */
  readonly idField: string;
  /** The description of the id in the documentation. */
  readonly describeId?: string;
  /** A text that cannot be an id gets the same 404 as an unknown id. */
  isId(text: string): boolean;
  readonly filters: z.ZodRawShape;
  /** `query` has passed `filters`. */
  where(query: Values): readonly (SQL | undefined)[];
  /** Throws a ProblemError if the values do not fit the configuration. `before` is the row to be changed. */
  expect?(values: Values, before: Row | undefined): void;
  /** How many bytes of the snapshot a row takes; undefined: none. */
  bytesOf?(row: Values): number;
  /** Adds fields to the body of a creation. */
  prepare?(values: Values): Promise<Creation>;
  /** Creates rows that the values refer to and that do not exist yet, in the same transaction. */
  bring?(values: Values): Promise<Brought | undefined>;
  /** Which rules' warnings the answer shows: those of the changed rule, or of all rules. */
  readonly concerns?: 'itself' | 'all';
}

export interface Creation {
  readonly values: Values;
  /** Goes into the answer to the creation, and nowhere else. */
  readonly shownOnce?: Values;
}

export interface Brought {
  readonly statement: SQL;
  /** Tells the client about the row that it did not ask for. */
  readonly warning: string;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export const isUuid = (text: string): boolean => UUID.test(text);

/** Text that Postgres can hold. */
export const isPlainId = (text: string): boolean => text.length <= 256 && !text.includes('\0');

// Refuses an expiry in the past: it is a mistake, most likely in the time zone.

export function expectFuture({ expiresAt }: Values, nowMs: number): void {
  if (!(expiresAt instanceof Date) || expiresAt.getTime() > nowMs) return;
  throw invalidBody([{ pointer: '#/expiresAt', detail: 'must be in the future' }]);
}

// Filters that collections have in common. A filter without a value filters nothing.

export const flag = z.enum(['true', 'false']);

export const equals = (column: PgColumn, value: unknown): SQL | undefined =>
  value === undefined ? undefined : eq(column, value);

/** The column begins with the text, or the text begins with the column. */
export const beginsAlike = (column: PgColumn, text: unknown): SQL | undefined =>
  typeof text === 'string'
    ? sql`(starts_with(${column}, ${text}) or starts_with(${text}, ${column}))`
    : undefined;

export const contains = (column: PgColumn, part: unknown): SQL | undefined =>
  typeof part === 'string' ? ilike(column, `%${part.replace(/[\\%_]/g, '\\$&')}%`) : undefined;

/** At least one of the columns contains the text. */
export const containsAny = (columns: readonly PgColumn[], part: unknown): SQL | undefined =>
  or(...columns.map((column) => contains(column, part)));
