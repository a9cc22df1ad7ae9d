// What a collection of the admin route is made from.
import type { SQL } from 'drizzle-orm';
import type * as z from 'zod';
import type { BodySchemas, Values } from '../../rules/tables/body-schemas.ts';
import type { RepositoryOptions, Row } from '../../rules/tables/repository.ts';

export interface Collection extends RepositoryOptions {
  /** The path, and the group in the documentation: `rules`. */
  readonly path: string;
  /** One of them, in sentences: `rule`. */
  readonly noun: string;
  readonly bodies: BodySchemas;
  /** The field that is the id. */
  readonly idField: string;
  /** In the documentation. */
  readonly describeId?: string;
  /** What cannot be an id is answered like an id that is not there. */
  isId(text: string): boolean;
  readonly filters: z.ZodRawShape;
  /** `query` has passed `filters`. */
  where(query: Values): readonly (SQL | undefined)[];
  /** Refuses, by an AdminError, what only shows beside what is configured. `before`: what is to be changed. */
  expect?(values: Values, before: Row | undefined): void;
  /** What one of them takes of the room that there is at the edge; undefined: nothing. */
  bytesOf?(row: Values): number;
  /** What a creation adds to the body it was given. */
  prepare?(values: Values): Promise<Creation>;
  /** What the values need that is not there yet: it is made in the transaction of the change. */
  bring?(values: Values): Promise<Brought | undefined>;
  /** Whose warnings a change may cause: those of the rule that it is, or of any rule. */
  readonly concerns?: 'itself' | 'all';
}

export interface Creation {
  readonly values: Values;
  /** Goes into the answer to the creation, and nowhere else. */
  readonly shownOnce?: Values;
}

export interface Brought {
  readonly statement: SQL;
  /** For the answer: nobody asked for it. */
  readonly warning: string;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export const isUuid = (text: string): boolean => UUID.test(text);

/** Text that Postgres can hold. */
export const isPlainId = (text: string): boolean => text.length <= 256 && !text.includes('\0');
