// Parses data from outside (a variable, a value in KV). Problems name the field, never its value. The gateway uses this
// instead of zod, because evaluating zod takes longer than all the rest of an isolate's start.

/** The beginning of a text from outside. An error quotes no more of it: the sender knows the rest. */
export const quoted = (text: string, most = 100): string =>
  text.length <= most ? text : `${text.slice(0, most - 1)}…`;

/** Returns the parsed value, or undefined after it has added to `problems`. */
export type Shape<T> = (value: unknown, at: string, problems: string[]) => T | undefined;
export type Shaped<S> = S extends Shape<infer T> ? T : never;

function refuse(at: string, problem: string, problems: string[]): undefined {
  problems.push(`${at}: ${problem}`);
}

function typed<T>(name: string, isTyped: (value: unknown) => boolean): Shape<T> {
  return (value, at, problems) => {
    if (isTyped(value)) return value as T;
    return refuse(at, value === undefined ? 'is missing' : `must be ${name}`, problems);
  };
}

const isObject = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value);

export const text = typed<string>('text', (value) => typeof value === 'string');
export const flag = typed<boolean>('true or false', (value) => typeof value === 'boolean');
export const number = typed<number>('a number', Number.isFinite);
export const wholeNumber = typed<number>('a whole number', Number.isSafeInteger);
const anyObject = typed<Record<string, unknown>>('an object', isObject);
const anyList = typed<unknown[]>('a list', Array.isArray);

/** The shape with one more condition. */
export function refine<T>(shape: Shape<T>, isSuch: (value: T) => boolean, problem: string): Shape<T> {
  return (value, at, problems) => {
    const read = shape(value, at, problems);
    return read === undefined || isSuch(read) ? read : refuse(at, problem, problems);
  };
}

export function transform<T, U>(shape: Shape<T>, change: (value: T) => U): Shape<U> {
  return (value, at, problems) => {
    const read = shape(value, at, problems);
    return read === undefined ? undefined : change(read);
  };
}

export const matching = (pattern: RegExp, problem: string) =>
  refine(text, (value) => pattern.test(value), problem);

export const textFrom = (
  least: number,
  problem = `Too small: expected string to have >=${least} characters`,
) => refine(text, ({ length }) => length >= least, problem);

export const numberFrom = (least: number, most = Number.POSITIVE_INFINITY) =>
  refine(
    refine(number, (value) => value >= least, `Too small: expected number to be >=${least}`),
    (value) => value <= most,
    `Too big: expected number to be <=${most}`,
  );

export function oneOf<const T extends string>(names: readonly T[]): Shape<T> {
  const problem = `Invalid option: expected one of ${names.map((name) => `"${name}"`).join('|')}`;
  return (value, at, problems) => names.find((name) => name === value) ?? refuse(at, problem, problems);
}

/** Keeps the text as written, without blanks around it. */
export function url(start: RegExp, problem: string): Shape<string> {
  return (value, at, problems) => {
    const written = typeof value === 'string' ? value.trim() : '';
    if (start.test(written) && URL.canParse(written)) return written.replace(/[\t\n\r]/g, '');
    return refuse(at, value === undefined ? 'is missing' : problem, problems);
  };
}

export function json<T>(shape: Shape<T>): Shape<T> {
  return (value, at, problems) => {
    const read = text(value, at, problems);
    if (read === undefined) return undefined;
    let parsed: unknown;
    try {
      parsed = JSON.parse(read);
    } catch {
      return refuse(at, 'must be JSON', problems);
    }
    return shape(parsed, at, problems);
  };
}

export function listOf<T>(item: Shape<T>, least = 0): Shape<T[]> {
  return (value, at, problems) => {
    const before = problems.length;
    const list = anyList(value, at, problems) ?? [];
    const read = list.map((one, i) => item(one, `${at}[${i}]`, problems));
    if (problems.length > before) return undefined;
    return list.length < least ? refuse(`${at}[${list.length}]`, 'is missing', problems) : (read as T[]);
  };
}

/** An object whose keys are data, such as ids of callers. */
export function recordOf<T>(item: Shape<T>): Shape<Record<string, T>> {
  return (value, at, problems) => {
    const before = problems.length;
    const entries = Object.entries(anyObject(value, at, problems) ?? {});
    const read = entries.map(([name, one]) => [name, item(one, `${at}.${name}`, problems)] as const);
    return problems.length === before ? (Object.fromEntries(read) as Record<string, T>) : undefined;
  };
}

export function optional<T>(shape: Shape<T>): Shape<T | undefined> {
  return (value, at, problems) => (value === undefined ? undefined : shape(value, at, problems));
}

export function withDefault<T>(shape: Shape<T>, byDefault: T): Shape<T> {
  return (value, at, problems) => (value === undefined ? byDefault : shape(value, at, problems));
}

export type Fields = Readonly<Record<string, Shape<unknown>>>;
export type ObjectOf<F extends Fields> = { readonly [Name in keyof F]: Shaped<F[Name]> };

/** Reads the named fields and ignores all others. */
export function readFields<F extends Fields>(fields: F, given: object, at: string, problems: string[]) {
  const read: Record<string, unknown> = {};
  for (const [name, shape] of Object.entries(fields)) {
    const field = shape((given as Record<string, unknown>)[name], at + name, problems);
    if (field !== undefined) read[name] = field;
  }
  return read as Partial<ObjectOf<F>>;
}

export function object<F extends Fields>(fields: F): Shape<ObjectOf<F>> {
  return (value, at, problems) => {
    const before = problems.length;
    const given = anyObject(value, at, problems);
    const read = given && readFields(fields, given, `${at}.`, problems);
    return problems.length === before ? (read as ObjectOf<F>) : undefined;
  };
}

const MOST_NAMED = 10;

/** Refuses unknown fields, because most likely one is misspelt. */
export function strictObject<F extends Fields>(fields: F): Shape<ObjectOf<F>> {
  const shape = object(fields);
  return (value, at, problems) => {
    const read = shape(value, at, problems);
    const unknown = isObject(value)
      ? Object.keys(value as object).filter((name) => !Object.hasOwn(fields, name))
      : [];
    if (unknown.length === 0) return read;
    const names = unknown
      .slice(0, MOST_NAMED)
      .map((name) => `"${quoted(name)}"`)
      .join(', ');
    return refuse(at, `Unrecognized key${unknown.length > 1 ? 's' : ''}: ${names}`, problems);
  };
}
