// The declaration of an admin collection.
import type { SQL } from 'drizzle-orm';
import type * as z from 'zod';
import type { BodySchemas, Values } from '../../rules/tables/body-schemas.ts';
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
  /** Throws an AdminError if the values do not fit the configuration. `before` is the row to be changed. */
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
