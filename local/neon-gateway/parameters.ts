// Turns parameters, which arrive as any JSON, into text. Postgres decides by the type it infers, as with Neon.

export function toPgText(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return toPgArray(value);
  return JSON.stringify(value);
}

function toPgArray(values: unknown[]): string {
  return `{${values.map(toArrayItem).join(',')}}`;
}

function toArrayItem(value: unknown): string {
  if (value === null || value === undefined) return 'NULL';
  if (Array.isArray(value)) return toPgArray(value);
  // Neon quotes array items as JSON strings, too. The driver sends arrays as text and never gets here.
  if (typeof value === 'object') return JSON.stringify(JSON.stringify(value));
  return JSON.stringify(value);
}
