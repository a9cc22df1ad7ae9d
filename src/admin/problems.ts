// Errors of the admin route: problem+json with a stable code, and a pointer to each bad field.

import type * as z from 'zod';
import { type FieldError, NOT_A_FIELD } from '../core/shape.ts';
import { ProblemError } from '../http/internal-requests.ts';
import type { Problem } from '../http/problem.ts';

export const notFound = (what: string) =>
  new ProblemError({ status: 404, code: 'not-found', title: `There is no such ${what}` });

type Path = readonly PropertyKey[];

const inBody = (path: Path) => `#${path.map(toPointer).join('')}`;

/** Translates errors of zod. A `pointerTo` of its own is for queries and headers, whose fields have names. */
export function fieldErrors(error: z.core.$ZodError, input: unknown, pointerTo = inBody): FieldError[] {
  return error.issues.flatMap((issue) => {
    const paths =
      issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...issue.path, key]) : [issue.path];
    return paths.map((path) => ({ pointer: pointerTo(path), detail: detailOf(issue, path, input) }));
  });
}

const READ_ONLY: readonly unknown[] = ['id', 'revision', 'createdAt', 'updatedAt'];

function detailOf(issue: z.core.$ZodIssue, path: Path, input: unknown): string {
  if (issue.code === 'unrecognized_keys')
    return READ_ONLY.includes(path.at(-1)) ? 'is shown, never written' : NOT_A_FIELD;
  const isTyped = issue.code === 'invalid_type' || issue.code === 'invalid_value';
  return isTyped && valueAt(input, path) === undefined ? 'is missing' : issue.message;
}

const valueAt = (input: unknown, path: Path): unknown =>
  path.reduce<unknown>(
    (value, part) => (value !== null && typeof value === 'object' ? Reflect.get(value, part) : undefined),
    input,
  );

const toPointer = (part: PropertyKey) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`;

// Translates errors of Postgres into problems of the admin route, by SQLSTATE. The original messages stay in the log,
// because they can contain SQL, values and connection strings.

/** The fields of an error that the driver and Drizzle pass on. */
interface PostgresError {
  readonly code?: unknown;
  /** Only of errors that Weir's own functions raise: others contain values. */
  readonly message?: unknown;
  readonly detail?: unknown;
  readonly constraint?: unknown;
  readonly column?: unknown;
}

export function postgresProblem(error: unknown): Problem {
  const found = findPostgresError(error);
  if (!found) return { status: 500, code: 'internal-error', title: 'Something in Weir is wrong' };
  const code = textOf(found.code);
  const known = BY_STATE[code] ?? BY_CLASS[code.slice(0, 2)];
  return known?.(found) ?? UNAVAILABLE;
}

/** The SQLSTATE, or undefined if the error is not from Postgres. */
export const sqlStateOf = (error: unknown): string | undefined =>
  textOf(findPostgresError(error)?.code) || undefined;

/** Unwraps errors of Drizzle. A driver error without a state means that Postgres was not reached. */
function findPostgresError(error: unknown): PostgresError | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (isPostgresError(cause)) return cause;
  return undefined;
}

const isPostgresError = (error: Error): error is Error & PostgresError =>
  error.name === 'NeonDbError' || ('code' in error && /^[0-9A-Z]{5}$/.test(textOf(error.code)));

type ToProblem = (error: PostgresError) => Problem;

const UNAVAILABLE: Problem = {
  status: 503,
  code: 'database-unavailable',
  title: 'Postgres does not answer',
  detail: 'Nothing was changed, as far as Weir knows. The rules in force stay in force.',
};

const BY_STATE: Readonly<Record<string, ToProblem>> = {
  '23505': alreadyExists,
  '23503': brokenReference,
  '23514': refused,
  '23502': refused,
  WE409: ({ message }) => ({
    status: 409,
    code: 'changed-since',
    title: 'Something has changed since',
    detail: `${textOf(message)}. With force=true it is undone nevertheless.`,
  }),
  WE404: () => ({ status: 404, code: 'not-found', title: 'There is no such change' }),
  '42P01': () => toMigrate('tables-missing', 'The tables are missing'),
};

const BY_CLASS: Readonly<Record<string, ToProblem>> = {
  // Values that a column cannot hold: a NUL in a text, a number out of range.
  '22': refused,
  // Weir's SQL does not fit the tables, or may not use them.
  '42': () => toMigrate('tables-outdated', 'The tables do not fit this version of Weir'),
};

const toMigrate = (code: string, title: string): Problem => ({
  status: 503,
  code,
  title,
  detail: 'Run `npm run db:migrate`.',
});

/** Constraints whose columns are not named like the fields. */
const FIELDS_OF: Readonly<Record<string, readonly string[]>> = {
  tiers_one_default: ['isDefault'],
  routes_once: ['host', 'resource'],
};

function alreadyExists({ detail, constraint }: PostgresError): Problem {
  const isDefault = constraint === 'tiers_one_default';
  const fields = FIELDS_OF[textOf(constraint)] ?? fieldsOf(detail);
  return {
    status: 409,
    code: 'already-exists',
    title: fields.length > 0 ? `There is already one with this ${fields.join(', ')}` : 'There is already one',
    errors: fields.map((field) => ({
      pointer: `#/${field}`,
      detail: isDefault ? 'another tier is the default one' : 'is already taken',
    })),
  };
}

/** Either the row refers to a row that does not exist, or another row still refers to this one. */
function brokenReference({ detail }: PostgresError): Problem {
  const user = /still referenced from table "([^"]+)"/.exec(textOf(detail))?.[1];
  if (user !== undefined)
    return { status: 409, code: 'still-in-use', title: 'It is still in use', detail: `By ${words(user)}.` };
  return {
    status: 409,
    code: 'unknown-reference',
    title: 'It names something that is not there',
    errors: fieldsOf(detail).map((field) => ({
      pointer: `#/${field}`,
      detail: 'names something that is not there',
    })),
  };
}

function refused({ constraint, column }: PostgresError): Problem {
  const reason = textOf(constraint) || textOf(column);
  return {
    status: 400,
    code: 'refused-by-database',
    title: 'Postgres refused it',
    ...(reason && { detail: `It breaks ${reason}.` }),
  };
}

/** From `Key (tenant_id)=(acme) is not present in table "tenants".` */
function fieldsOf(detail: unknown): string[] {
  const columns = /^Key \(([^)]+)\)=/.exec(textOf(detail))?.[1] ?? '';
  return columns ? columns.split(', ').map(toCamelCase) : [];
}

const toCamelCase = (column: string) => column.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
const words = (table: string) => table.replaceAll('_', ' ');
const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');
