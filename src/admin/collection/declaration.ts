// What the declaration of a collection says. Its six operations, its place in documents and its name in the history
// follow from it.

import { eq, ilike, or, type SQL, sql } from 'drizzle-orm';
import type { AnyPgColumn, PgColumn } from 'drizzle-orm/pg-core';
import * as z from 'zod';
import type { BodySchemas, Values } from '../../authoring/bodies.ts';
import type { FieldError } from '../../core/shape.ts';
import { invalidBody } from '../../http/internal-requests.ts';
import type { RepositoryOptions } from '../../rules/tables/repository.ts';
import type { AdminServices } from '../app.ts';

export interface Collection extends RepositoryOptions {
  /** The path, the group in the documentation, and the list in a document: `rules`. */
  readonly path: string;
  /** The word for one item, in sentences: `rule`. */
  readonly noun: string;
  readonly bodies: BodySchemas;
  readonly filters: Readonly<Record<string, Filter>>;
  /** A field that must fit this deployment. An unchanged one may name a part of it that was removed. */
  readonly fits?: {
    readonly field: string;
    /** The pointers are those in the row: `/shares/us`. */
    errors(value: unknown, deployment: Deployment): readonly FieldError[];
  };
  /** How many bytes of the snapshot a row takes; undefined: none. */
  bytesOf?(row: Values): number;
  /** Adds fields to the body of a creation. */
  prepare?(values: Values, nowMs: number): Creation | Promise<Creation>;
  /** Creates rows that the values refer to and that do not exist yet, in the same transaction. */
  addMissing?(values: Values, services: AdminServices): Promise<MissingRow | undefined>;
  /** Which rules' warnings the answer shows: those of the changed rule, or of all rules. */
  readonly concerns?: 'itself' | 'all';
  readonly inDocuments: InDocuments;
}

/** What rows may name of the deployment. */
export type Deployment = Pick<AdminServices, 'origins'> & {
  readonly regions: readonly { readonly name: string }[];
};

export interface InDocuments {
  readonly mostEntries: number;
  /** The columns that tell two entries apart, if not the id. */
  readonly key?: readonly [AnyPgColumn, ...AnyPgColumn[]];
  /** What no two rows may share besides the key. */
  readonly unique?: readonly Unique[];
  /** Columns of a row that is deleted and inserted again, because it takes over what is unique of another row. */
  readonly keeps?: readonly string[];
}

export interface Unique {
  readonly field: string;
  /** Undefined: the row takes nothing. The default is the value of the field. */
  readonly of?: (row: Values) => string | undefined;
  readonly error?: string;
}

export interface Creation {
  readonly values: Values;
  /** Goes into the answer to the creation, and nowhere else. */
  readonly shownOnce?: Values;
}

export interface MissingRow {
  readonly statement: SQL;
  /** Tells the client about the row that it did not ask for. */
  readonly warning: string;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export const isUuid = (text: string): boolean => UUID.test(text);

/** A text that cannot be an id gets the same 404 as an unknown id. */
export const canBeId = ({ id }: Collection, text: string): boolean =>
  id.getSQLType() === 'uuid' ? isUuid(text) : text.length <= 256 && !text.includes('\0');

/** Refuses an expiry in the past: it is a mistake, most likely in the time zone. */
export function expectFuture({ expiresAt }: Values, nowMs: number): void {
  if (!(expiresAt instanceof Date) || expiresAt.getTime() > nowMs) return;
  throw invalidBody([{ pointer: '#/expiresAt', detail: 'must be in the future' }]);
}

/** A parameter of the list, and the rows that it leaves. */
export interface Filter {
  readonly schema: z.ZodType;
  where(value: string): SQL | undefined;
}

export const filter = (about: string | z.ZodType, where: Filter['where']): Filter => ({
  schema: (typeof about === 'string' ? z.string().describe(about) : about).optional(),
  where,
});

export const equals = (column: PgColumn, about: string | z.ZodType = z.string()): Filter =>
  filter(about, (value) => eq(column, value));

export const isOn = (column: PgColumn): Filter =>
  filter(z.enum(['true', 'false']), (value) => eq(column, value === 'true'));

/** At least one of the columns contains the text. */
export const contains = (what: string, ...columns: readonly PgColumn[]): Filter =>
  filter(z.string().max(256).describe(`A part of ${what}; upper and lower case are the same.`), (part) =>
    or(...columns.map((column) => ilike(column, `%${part.replace(/[\\%_]/g, '\\$&')}%`))),
  );

/** The column begins with the text, or the text begins with the column. */
export const beginsAlike = (column: PgColumn, about: string): Filter =>
  filter(about, (text) => sql`(starts_with(${column}, ${text}) or starts_with(${text}, ${column}))`);
