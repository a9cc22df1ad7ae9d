// Answers as comma-separated values, for spreadsheets (RFC 4180).

export const CSV_TYPE = 'text/csv; charset=utf-8';

export function toCsv<Row extends object>(columns: readonly (keyof Row & string)[], rows: readonly Row[]) {
  const lines = rows.map((row) => columns.map((column) => cellOf(row[column])).join(','));
  return [columns.join(','), ...lines].map((line) => `${line}\r\n`).join('');
}

/** Texts that a spreadsheet would take for a formula. Callers choose some texts, such as user ids. */
const FORMULA = /^[=+\-@\t\r]/;

function cellOf(value: unknown): string {
  if (typeof value === 'number') return String(value);
  const text = Array.isArray(value) ? value.join(' ') : String(value ?? '');
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
