// `npm run db:migrate`: applies drizzle/ to DATABASE_URL, or else to the Postgres of a running `npm run dev`.
import { applyMigrations } from './migrations.ts';
import { LOOPBACK, StackError } from './ports.ts';
import { parseSettings } from './settings.ts';

try {
  const { databaseUrl, ports } = parseSettings(process.env);
  const target = databaseUrl ?? `postgres://postgres@${LOOPBACK}:${ports.postgres}/postgres`;
  console.log(`migrating ${describe(target)}`);
  await applyMigrations(target);
  console.log('migrated');
} catch (error) {
  console.error(explain(error));
  process.exit(1);
}

/** Without user and password. */
function describe(url: string): string {
  const { host, pathname } = new URL(url);
  return `${host}${pathname}`;
}

function explain(error: unknown): string {
  if (error instanceof StackError) return `weir: ${error.message}`;
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ECONNREFUSED')
    return 'weir: no Postgres there: set DATABASE_URL, or start `npm run dev` first';
  return `weir: ${message}`;
}
