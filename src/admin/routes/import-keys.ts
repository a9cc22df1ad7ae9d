// Imports many API keys at once: those of an API that was there before Weir. A call is one transaction, and it can be sent
// again: a key is found by its hash, and what a row does not name stays as it is.

import { type SQL, sql } from 'drizzle-orm';
import * as z from 'zod';
import type { Values } from '../../authoring/bodies.ts';
import type { FieldError } from '../../core/shape.ts';
import { invalidBody } from '../../http/internal-requests.ts';
import { prefixOfHash } from '../../identity/api-key.ts';
import { asActor, type Database } from '../../rules/tables/repository.ts';
import { tiers } from '../../rules/tables/tables.ts';
import type { AdminApp, AdminServices } from '../app.ts';
import { addOperation } from '../operation.ts';
import { publishChange } from '../publish-change.ts';
import { importedKey } from '../schemas.ts';

const MOST_KEYS = 5_000;
const MOST_ERRORS = 20;

const keysToImport = z
  .strictObject({
    keys: z
      .array(importedKey)
      .min(1)
      .max(MOST_KEYS)
      .describe('A field that an entry leaves out stays as it is, or gets its default if the key is new.'),
  })
  .superRefine(({ keys }, context) => {
    const places = new Map<string, number>();
    for (const [i, { sha256 }] of keys.entries()) {
      const before = places.get(sha256);
      if (before === undefined) places.set(sha256, i);
      else {
        const message = `is the same as in keys/${before}`;
        context.addIssue({ code: 'custom', path: ['keys', i, 'sha256'], message, input: sha256 });
      }
    }
  })
  .meta({ id: 'KeyImport' });

const summary = z
  .strictObject({
    dryRun: z.boolean(),
    created: z.int(),
    updated: z.int(),
    unchanged: z.int(),
    users: z.int().describe('How many users were created, because a key names them.'),
    tenants: z.int().describe('How many tenants were created, because a key names them.'),
    warnings: z.array(z.string()),
  })
  .meta({ id: 'KeyImportSummary' });

export function addImportKeysRoutes(app: AdminApp, services: AdminServices): void {
  addOperation(
    app,
    {
      id: 'importKeys',
      call: 'POST /keys/import',
      group: 'keys',
      summary: 'Import keys that customers have already, by their hashes',
      description:
        'Creates the keys that are not there yet, and updates the others. Users and tenants that do not exist are created. All keys of a call are written, or none.',
      query: z.strictObject({
        dryRun: z.stringbool().prefault('false').describe('Only count what would change.'),
        publish: z
          .stringbool()
          .prefault('true')
          .describe('false: isolates learn of it with the next publication, within a minute by default.'),
      }),
      body: keysToImport,
      mostMebibytes: 4,
      says: 'Imported, or what an import would change',
      answer: summary,
    },
    async ({ query: { dryRun, publish }, body: { keys }, actor }) => {
      const { database } = services;
      await expectTiers(database, keys);
      const given = recordsOf(keys);
      const [{ rows }] = await database.batch([
        database.execute<Record<'created' | 'updated' | 'users' | 'tenants', number>>(countOf(given)),
        ...(dryRun
          ? []
          : [asActor(database, actor.name), ...writesOf(given).map((one) => database.execute(one))]),
      ]);
      const { created = 0, updated = 0, users = 0, tenants = 0 } = rows[0] ?? {};
      const counts = { created, updated, unchanged: keys.length - created - updated, users, tenants };
      const { warnings } = dryRun || !publish ? { warnings: [] } : await publishChange(services, []);
      return { dryRun, ...counts, warnings };
    },
  );
}

/** Names each tier that does not exist: Postgres would name only the first. */
async function expectTiers(database: Database, keys: readonly Values[]): Promise<void> {
  const rows = await database.select({ name: tiers.name }).from(tiers).orderBy(tiers.name);
  const names = rows.map(({ name }) => name);
  const errors = keys.flatMap(({ tier }, i): FieldError[] =>
    typeof tier !== 'string' || names.includes(tier)
      ? []
      : [{ pointer: `#/keys/${i}/tier`, detail: `is not a tier; there are ${names.join(', ') || 'none'}` }],
  );
  if (errors.length > 0) throw invalidBody(errors.slice(0, MOST_ERRORS));
}

/** The columns that an import writes, and what they are if no row names them. */
const COLUMNS = {
  name: sql`''`,
  user_id: sql`null`,
  tenant_id: sql`null`,
  tier: sql`null`,
  expires_at: sql`null`,
  disabled: sql`false`,
};
const NAMES = Object.keys(COLUMNS);
const columnsOf = (prefix: string) =>
  sql.join(
    NAMES.map((name) => sql`${sql.raw(prefix)}.${sql.identifier(name)}`),
    sql`, `,
  );
const columns = sql.join(
  NAMES.map((name) => sql.identifier(name)),
  sql`, `,
);

/** The keys as they shall be: what an entry does not name is what is stored. */
function recordsOf(keys: readonly z.infer<typeof importedKey>[]): SQL {
  const rows = keys.map(({ sha256, name, userId, tenantId, tier, expiresAt, disabled }) => ({
    ...{ hash: sha256, prefix: prefixOfHash(sha256), name, tier, disabled },
    ...{ user_id: userId, tenant_id: tenantId, expires_at: expiresAt },
  }));
  const wanted = Object.entries(COLUMNS).map(([name, byDefault]) => {
    const column = sql.identifier(name);
    return sql`case when entry ? ${name} then record.${column} when stored.hash is null then ${byDefault} else stored.${column} end as ${column}`;
  });
  return sql`(
    select record.hash, record.prefix, stored.hash is null as is_new, ${sql.join(wanted, sql`, `)}
    from jsonb_array_elements(${JSON.stringify(rows)}::jsonb) as entry
    cross join lateral jsonb_populate_record(null::weir.api_keys, entry) as record
    left join weir.api_keys as stored on stored.hash = record.hash
  ) as given`;
}

const countOf = (given: SQL): SQL => sql`
  select count(*) filter (where is_new)::int as created,
    count(*) filter (where not is_new and row(${columnsOf('stored')}) is distinct from row(${columnsOf('given')}))::int as updated,
    count(distinct given.user_id) filter (where not exists (select from weir.users where id = given.user_id))::int as users,
    count(distinct given.tenant_id) filter (where not exists (select from weir.tenants where id = given.tenant_id))::int as tenants
  from ${given} left join weir.api_keys as stored on stored.hash = given.hash`;

/** A user need not be there for a key to work, but a rule can then give it a tier or a tenant. */
const writesOf = (given: SQL): SQL[] => [
  sql`insert into weir.tenants (id)
    select distinct tenant_id from ${given} where tenant_id is not null on conflict do nothing`,
  sql`insert into weir.users (id)
    select distinct user_id from ${given} where user_id is not null on conflict do nothing`,
  sql`insert into weir.api_keys as stored (hash, prefix, ${columns})
    select hash, prefix, ${columns} from ${given}
    on conflict (hash) do update set (${columns}) = row(${columnsOf('excluded')})
    where row(${columnsOf('stored')}) is distinct from row(${columnsOf('excluded')})`,
];
