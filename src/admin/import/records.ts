// Writes rows of a document as SQL.
import { type SQL, sql } from 'drizzle-orm';

/** Thousands of rows as one parameter. */
export function recordsOf(table: string, rows: readonly object[]): SQL {
  const json = JSON.stringify(
    rows.map((row) =>
      Object.fromEntries(Object.entries(row).map(([field, value]) => [toColumnName(field), value])),
    ),
  );
  return sql`jsonb_populate_recordset(null::weir.${sql.identifier(table)}, ${json}::jsonb) as record`;
}

export const columnOf = (field: string) => sql.identifier(toColumnName(field));
const toColumnName = (field: string) => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
