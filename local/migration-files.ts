// Reads migrations from files: Weir's own from drizzle/, in the order of its journal; a team's from rules/, in the
// order of their names.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Migration {
  readonly name: string;
  readonly text: string;
  readonly hash: string;
  /** When the migration was generated. drizzle-kit recognizes its migrations by this number. */
  readonly createdAtMs: number;
}

interface Journal {
  readonly entries: readonly { readonly tag: string; readonly when: number }[];
}

export function readOwnMigrations(folder: string): Migration[] {
  const journal = JSON.parse(readFileSync(join(folder, 'meta/_journal.json'), 'utf8')) as Journal;
  return journal.entries.map(({ tag, when }) => readMigration(folder, tag, when));
}

/** Takes any `.sql` file, written by hand or by drizzle-kit. */
export function readRuleMigrations(folder: string): Migration[] {
  const names = existsSync(folder) ? readdirSync(folder) : [];
  return names
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => readMigration(folder, name.slice(0, -'.sql'.length), 0));
}

function readMigration(folder: string, name: string, createdAtMs: number): Migration {
  const text = readFileSync(join(folder, `${name}.sql`), 'utf8');
  return { name, text, hash: createHash('sha256').update(text).digest('hex'), createdAtMs };
}
