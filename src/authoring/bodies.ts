// Derives the bodies of a collection from the fields of its table: for creation, replacement, patch and answers.
// Unknown fields are refused. A client may send back fields that only Weir writes, if they are unchanged.

import * as z from 'zod';

// Names for people, without line ends and control characters, and texts that can be stored.

const CONTROL = /[\p{Cc}\p{Zl}\p{Zp}]/u;

/** Postgres cannot store half of a surrogate pair. On the way there it becomes another character. */
export const isWhole = (text: string) => text.isWellFormed();
export const NOT_WHOLE = 'has half of a surrogate pair, which is not a character';

export const plainText = (most: number) =>
  z
    .string()
    .max(most)
    .refine((text) => !CONTROL.test(text), 'must have no control characters')
    .refine(isWhole, NOT_WHOLE);

export type Values = Record<string, unknown>;

export interface BodySchemas {
  readonly name: string;
  readonly create: z.ZodType<Values>;
  /** Missing fields get their defaults. */
  readonly replace: z.ZodType<Values>;
  /** Only the given fields change. Fields are checked one by one; the result is then checked as a replacement. */
  readonly patch: z.ZodType<Values>;
  readonly shown: z.ZodObject;
  /** Whether a replacement writes this field. Other fields are only shown. */
  isWritten(field: string): boolean;
  /** `shown`, plus fields that are known only at creation. */
  readonly created: z.ZodObject;
  /** An entry of a document, with all defaults. */
  readonly inDocument: z.ZodType<Values>;
  readonly documentFields: readonly string[];
  /** Those that depend on other fields are those of this entry. */
  defaultsOf(values: Values): Values;
}

type Fields = Readonly<Record<string, z.ZodType>>;
type Filled<F extends Fields> = { [K in keyof F]: z.output<F[K]> };

interface Declaration<F extends Fields> {
  readonly name: string;
  /** An id that people choose, once. */
  readonly writtenId?: Fields;
  /** An id that Postgres chooses. */
  readonly shownId?: z.ZodType;
  readonly fields: F;
  /** Fields that people may also write in another form, and what brings them into the form of `fields`. */
  readonly written?: {
    readonly fields: Fields;
    read(values: Values, context: z.core.$RefinementCtx<unknown>): Values;
  };
  /** A function makes the default from the other values. */
  readonly defaults: Readonly<Partial<Record<keyof F, unknown>>>;
  /** Fields that Postgres fills in if they are missing. A replacement without them keeps their values. */
  readonly madeUp?: readonly (keyof F)[];
  readonly shown?: Fields;
  readonly shownOnce?: Fields;
  /** Fields that only a creation has, and that are never shown. */
  readonly atCreation?: Fields;
  /** Fields that an entry of a document has besides those of a creation, or that it needs. */
  readonly inDocument?: Fields;
  /** Looks at the fields together. */
  check?(values: Filled<F>, context: z.core.$RefinementCtx<unknown>): void;
  normalize?(values: Filled<F>): Values;
}

export const identifier = z.string().min(1).max(256).refine(isWhole, NOT_WHOLE);

const kept = {
  revision: z.int().describe('Changes with every change of the item; also in the ETag.'),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
};

const SENT_BACK = z.unknown().optional().describe('Must be as shown, because it cannot be changed.');

export function bodySchemas<F extends Fields>(declaration: Declaration<F>): BodySchemas {
  const { name, writtenId = {}, shownId, fields, shown: alsoShown = {}, shownOnce = {} } = declaration;
  const { inDocument, defaults } = declaration;
  const written = { ...fields, ...declaration.written?.fields };
  const filled = mapFields(written, (schema, field) => fill(declaration, schema, field));
  const read = (shape: Fields): z.ZodType<Values> => {
    const object = z.strictObject(shape);
    return declaration.written ? object.transform(declaration.written.read) : object;
  };
  const complete = (shape: Fields) => {
    const derived = read(shape).transform((values) => ({ ...defaultsFor(defaults, values), ...values }));
    const checked = derived.superRefine((values, context) => {
      // Problems of single fields would only be reported again.
      if (context.issues.length === 0) declaration.check?.(values as Filled<F>, context);
    });
    const { normalize } = declaration;
    return normalize ? checked.transform((values) => normalize(values as Filled<F>)) : checked;
  };
  const shownOnly = { ...(shownId && { id: shownId }), ...writtenId, ...alsoShown, ...kept };
  const shown = z.strictObject({ ...shownOnly, ...fields });
  // Accepts any type here: a value that differs from the shown one is refused later, always in the same way.
  const sentBack = mapFields(shownOnly, () => SENT_BACK);

  const create = complete({ ...writtenId, ...declaration.atCreation, ...filled }).meta({
    id: `${name}Creation`,
  });
  return {
    name,
    create,
    replace: complete({ ...filled, ...sentBack }).meta({ id: `${name}Replacement` }),
    patch: read({ ...mapFields(written, (schema) => schema.optional()), ...sentBack }).meta({
      id: `${name}Patch`,
    }),
    isWritten: (field) => field in fields,
    shown: shown.meta({ id: name }),
    created: shown.extend(shownOnce),
    inDocument: inDocument
      ? complete({ ...inDocument, ...filled, ...inDocument }).meta({ id: `Document${name}` })
      : create,
    documentFields: Object.keys({ ...writtenId, ...inDocument, ...fields }),
    defaultsOf: (values) => defaultsFor(defaults, values),
  };
}

function fill<F extends Fields>(
  { defaults, madeUp }: Declaration<F>,
  schema: z.ZodType,
  field: keyof F,
): z.ZodType {
  if (madeUp?.includes(field) || typeof defaults[field] === 'function') return schema.optional();
  return field in defaults ? schema.default(defaults[field]) : schema;
}

const defaultsFor = (defaults: Readonly<Record<string, unknown>>, values: Values): Values =>
  Object.fromEntries(
    Object.entries(defaults).map(([field, byDefault]) => [
      field,
      typeof byDefault === 'function' ? byDefault(values) : byDefault,
    ]),
  );

const mapFields = <F extends Fields>(fields: F, map: (schema: z.ZodType, field: keyof F) => z.ZodType) =>
  Object.fromEntries(Object.entries(fields).map(([field, schema]) => [field, map(schema, field)]));

// A moment as people write it: with its zone, so that nobody has to guess.

export const moment = z.iso
  .datetime({ offset: true, error: 'must be a moment such as 2030-01-31T12:00:00Z, with its zone' })
  .transform((text) => new Date(text));
