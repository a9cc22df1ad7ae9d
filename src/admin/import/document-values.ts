// Values of a document: leaves out defaults, and compares two values.

/** Leaves out fields that have their defaults. */
export function withoutDefaults(
  row: Readonly<Record<string, unknown>>,
  fields: readonly string[],
  defaults: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const said = fields.filter((field) => !(field in defaults && isSame(row[field], defaults[field])));
  return Object.fromEntries(said.map((field) => [field, row[field]]));
}

/** Compares values that came from JSON. The order of keys does not matter, but the order of list entries does. */
export function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a, sortKeys) === JSON.stringify(b, sortKeys);
}

function sortKeys(_: string, value: unknown): unknown {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
