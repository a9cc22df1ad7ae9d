// `npm run db:migrate`: applies drizzle/ and then rules/ to DATABASE_URL, or else to the Postgres of a running `npm run
// dev`. With WEIR_URL and ADMIN_TOKEN it also publishes, so that new rules are in force at once.
import { applyMigrations } from './migrations.ts';
import { LOOPBACK, StackError } from './ports.ts';
import { parseSettings } from './settings.ts';

interface Published {
  readonly ruleCount?: number;
  readonly version?: string;
  readonly rejected?: readonly { readonly name: string; readonly problems: readonly string[] }[];
  readonly regions?: readonly { readonly name: string; readonly announced: boolean }[];
  readonly title?: string;
  readonly detail?: string;
}

try {
  const { databaseUrl, ports, weirUrl } = parseSettings(process.env);
  const target = databaseUrl ?? `postgres://postgres@${LOOPBACK}:${ports.postgres}/postgres`;
  console.log(`migrating ${describe(target)}`);
  const { applied, edited } = await applyMigrations(target);
  for (const name of applied) console.log(`applied ${name}`);
  for (const name of edited)
    console.warn(`${name}.sql was edited after it was applied: write another file to change what it did`);
  console.log('migrated');
  if (weirUrl) await publish(weirUrl, process.env['ADMIN_TOKEN'] ?? '');
  else console.log('in force within a minute; at once, if WEIR_URL and ADMIN_TOKEN say where to publish');
} catch (error) {
  console.error(explain(error));
  process.exit(1);
}

async function publish(url: string, token: string): Promise<void> {
  const endpoint = `${url.replace(/(?<!\/)\/+$/, '')}/_weir/admin/publish`;
  const answer = await fetch(endpoint, {
    method: 'POST',
    headers: { Authorization: `Bearer ${token}` },
  }).catch(() => undefined);
  if (!answer) throw new StackError(`migrated, but not published: nothing answers at ${url}`);
  const body = (await answer.json().catch(() => ({}))) as Published;
  if (!answer.ok)
    throw new StackError(
      `migrated, but not published: ${answer.status} ${body.title ?? ''} ${body.detail ?? ''}`,
    );
  if (body.version === undefined) throw new StackError(`migrated, but not published: ${url} is not Weir`);
  console.log(`published ${body.ruleCount} rules as version ${body.version}`);
  for (const { name, problems } of body.rejected ?? [])
    console.warn(`left out: ${name}: ${problems.join('; ')}`);
  for (const { name } of (body.regions ?? []).filter(({ announced }) => !announced))
    console.warn(`region ${name} did not answer; the cron run tells it within a minute`);
}

/** Leaves out the user and the password. */
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
