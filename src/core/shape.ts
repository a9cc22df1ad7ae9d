// Parses data from outside (a variable, a check, a value in KV). An error names the field, what was found, and what is
// allowed. It never quotes a text that could be a secret. The gateway uses this instead of zod, because evaluating zod
// takes longer than all the rest of an isolate's start.

/** The beginning of a text from outside. An error quotes no more of it: the sender knows the rest. */
export const quoted = (text: string, most = 100): string =>
  text.length <= most ? text : `${text.slice(0, most - 1)}…`;

/** What is wrong with one field, everywhere: in answers of every route, in imports and in the configuration. */
export interface FieldError {
  /** Into a body, as in RFC 9457: `#/limits/calls`. Or the name of a parameter, header or variable: `REGIONS/0/url`. */
  readonly pointer: string;
  readonly detail: string;
}

/** As one line, for messages of errors that are thrown. */
export const textOfErrors = (errors: readonly FieldError[]): string =>
  errors.map(({ pointer, detail }) => `${pointer}: ${detail}`).join('; ');

/** Returns the parsed value, or undefined after it has added to `errors`. */
export type Shape<T> = (value: unknown, at: string, errors: FieldError[]) => T | undefined;
export type Shaped<S> = S extends Shape<infer T> ? T : never;

export function refuse(pointer: string, detail: string, errors: FieldError[]): undefined {
  errors.push({ pointer, detail });
}

/** No token that Weir accepts is shorter than this. A longer text may be one, in a variable where it does not belong. */
const SECRET_CHARACTERS = 16;

/** What was found, without its value. */
export function kindOf(value: unknown): string {
  if (typeof value === 'string') return `a text of ${value.length} character${value.length === 1 ? '' : 's'}`;
  if (typeof value === 'object')
    return value === null ? 'null' : Array.isArray(value) ? 'a list' : 'an object';
  return `a ${typeof value}`;
}

/** What was found, with its value if that cannot be a secret. Only for fields that are never secret. */
export const describeValue = (value: unknown): string =>
  typeof value === 'string' && value.length < SECRET_CHARACTERS ? JSON.stringify(value) : kindOf(value);

const describeNumber = (value: unknown) => (typeof value === 'number' ? String(value) : kindOf(value));

function typed<T>(name: string, isTyped: (value: unknown) => boolean, describe = kindOf): Shape<T> {
  return (value, at, errors) => {
    if (isTyped(value)) return value as T;
    return refuse(at, value === undefined ? 'is missing' : `must be ${name}, not ${describe(value)}`, errors);
  };
}

const isObject = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value);

export const text = typed<string>('text', (value) => typeof value === 'string');
export const flag = typed<boolean>('true or false', (value) => typeof value === 'boolean');
export const number = typed<number>('a number', Number.isFinite, describeNumber);
export const wholeNumber = typed<number>('a whole number', Number.isSafeInteger, describeNumber);
const anyObject = typed<Record<string, unknown>>('an object', isObject);
const anyList = typed<unknown[]>('a list', Array.isArray);

/** The shape with one more condition. */
export function refine<T>(
  shape: Shape<T>,
  isSuch: (value: T) => boolean,
  problem: string | ((value: T) => string),
): Shape<T> {
  return (value, at, errors) => {
    const read = shape(value, at, errors);
    if (read === undefined || isSuch(read)) return read;
    return refuse(at, typeof problem === 'string' ? problem : problem(read), errors);
  };
}

export function transform<T, U>(shape: Shape<T>, change: (value: T) => U): Shape<U> {
  return (value, at, errors) => {
    const read = shape(value, at, errors);
    return read === undefined ? undefined : change(read);
  };
}

/** `allowed` says what the pattern means. For secrets, pass `kindOf`. */
export const matching = (pattern: RegExp, allowed: string, describe = describeValue) =>
  refine(
    text,
    (value) => pattern.test(value),
    (value) => `must be ${allowed}, not ${describe(value)}`,
  );

export const textFrom = (least: number) =>
  refine(
    text,
    ({ length }) => length >= least,
    ({ length }) =>
      length === 0 ? 'must not be empty' : `must have at least ${least} characters, not ${length}`,
  );

export const numberFrom = (least: number, most = Number.POSITIVE_INFINITY) => {
  const allowed = most === Number.POSITIVE_INFINITY ? `at least ${least}` : `from ${least} to ${most}`;
  return refine(
    number,
    (value) => value >= least && value <= most,
    (value) => `must be ${allowed}, not ${value}`,
  );
};

export function oneOf<const T extends string>(names: readonly T[]): Shape<T> {
  const allowed = names.map((name) => `"${name}"`).join(' or ');
  return (value, at, errors) =>
    names.find((name) => name === value) ??
    refuse(
      at,
      value === undefined ? 'is missing' : `must be ${allowed}, not ${describeValue(value)}`,
      errors,
    );
}

/** Keeps the text as written, without blanks around it. */
export function url(start: RegExp, allowed: string): Shape<string> {
  return (value, at, errors) => {
    const written = typeof value === 'string' ? value.trim() : '';
    if (start.test(written) && URL.canParse(written)) return written.replace(/[\t\n\r]/g, '');
    return refuse(
      at,
      value === undefined ? 'is missing' : `must be ${allowed}, not ${kindOf(value)}`,
      errors,
    );
  };
}

export function json<T>(shape: Shape<T>): Shape<T> {
  return (value, at, errors) => {
    const read = text(value, at, errors);
    if (read === undefined) return undefined;
    let parsed: unknown;
    try {
      parsed = JSON.parse(read);
    } catch {
      return refuse(at, `must be JSON, not ${kindOf(read)}`, errors);
    }
    return shape(parsed, at, errors);
  };
}

export function listOf<T>(item: Shape<T>, least = 0): Shape<T[]> {
  return (value, at, errors) => {
    const before = errors.length;
    const list = anyList(value, at, errors) ?? [];
    // Not `map`, because a caller by RPC can leave holes, which `map` keeps.
    const read = Array.from(list, (one, i) => item(one, `${at}/${i}`, errors));
    if (errors.length > before) return undefined;
    return list.length < least ? refuse(`${at}/${list.length}`, 'is missing', errors) : (read as T[]);
  };
}

/** An object whose keys are data, such as ids of callers. */
export function recordOf<T>(item: Shape<T>): Shape<Record<string, T>> {
  return (value, at, errors) => {
    const before = errors.length;
    const entries = Object.entries(anyObject(value, at, errors) ?? {});
    const read = entries.map(([name, one]) => [name, item(one, `${at}/${name}`, errors)] as const);
    return errors.length === before ? (Object.fromEntries(read) as Record<string, T>) : undefined;
  };
}

export function optional<T>(shape: Shape<T>): Shape<T | undefined> {
  return (value, at, errors) => (value === undefined ? undefined : shape(value, at, errors));
}

/** A shape that takes a missing value. */
export type DefaultShape<T> = Shape<T> & { readonly byDefault: T };

export function withDefault<T>(shape: Shape<T>, byDefault: T): DefaultShape<T> {
  const defaulted: Shape<T> = (value, at, errors) =>
    value === undefined ? byDefault : shape(value, at, errors);
  return Object.assign(defaulted, { byDefault });
}

export type Fields = Readonly<Record<string, Shape<unknown>>>;
export type ObjectOf<F extends Fields> = { readonly [Name in keyof F]: Shaped<F[Name]> };

/** Reads the named fields and ignores all others. */
export function readFields<F extends Fields>(fields: F, given: object, at: string, errors: FieldError[]) {
  const read: Record<string, unknown> = {};
  for (const [name, shape] of Object.entries(fields)) {
    const field = shape((given as Record<string, unknown>)[name], at + name, errors);
    if (field !== undefined) read[name] = field;
  }
  return read as Partial<ObjectOf<F>>;
}

export function object<F extends Fields>(fields: F): Shape<ObjectOf<F>> {
  return (value, at, errors) => {
    const before = errors.length;
    const given = anyObject(value, at, errors);
    const read = given && readFields(fields, given, `${at}/`, errors);
    return errors.length === before ? (read as ObjectOf<F>) : undefined;
  };
}

const MOST_NAMED = 10;
export const NOT_A_FIELD = 'is not a field';

/** Refuses unknown fields, because most likely one is misspelt. */
export function strictObject<F extends Fields>(fields: F): Shape<ObjectOf<F>> {
  const shape = object(fields);
  return (value, at, errors) => {
    const read = shape(value, at, errors);
    const unknown = isObject(value)
      ? Object.keys(value as object).filter((name) => !Object.hasOwn(fields, name))
      : [];
    for (const name of unknown.slice(0, MOST_NAMED)) refuse(`${at}/${quoted(name)}`, NOT_A_FIELD, errors);
    return unknown.length === 0 ? read : undefined;
  };
}
