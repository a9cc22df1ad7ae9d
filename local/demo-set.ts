// Tiers, rules, routes and keys to try Weir with. Only an empty database gets them, so they never change a person's
// own rules. In front of a person's own API they are removed.
import { and, eq, inArray, like, ne, notInArray, notLike } from 'drizzle-orm';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import { hashApiKey, prefixOf } from '../src/identity/api-key.ts';
import { apiKeys, routes, rules, tenants, tiers, users } from '../src/rules/tables/tables.ts';
import { type DemoKey, demoKeys, KEYS } from './demo-keys.ts';

const TIERS = [
  { name: 'free', displayName: 'Free', isDefault: true, limits: { 'calls-per-minute': 10 } },
  { name: 'premium', displayName: 'Premium', priceCents: 4_900, limits: { 'calls-per-minute': 60 } },
  { name: 'enterprise', displayName: 'Enterprise', priceCents: 49_900, limits: { 'calls-per-minute': null } },
];

const TENANTS = [{ id: 'acme', name: 'Acme', tier: 'enterprise' }];

const USERS = [{ id: 'ada', tier: 'premium' }];

const RULES = [
  {
    name: 'demo: 100 a minute for each IP',
    resource: '/*',
    scope: 'ip',
    algorithm: 'fixed-window',
    limit: 100,
    windowSeconds: 60,
  },
  {
    name: 'demo: 5 logins a minute for each IP',
    resource: '/login',
    scope: 'ip',
    algorithm: 'fixed-window',
    limit: 5,
    windowSeconds: 60,
  },
  {
    name: 'demo: calls by tier',
    resource: '/api/*',
    scope: 'user',
    algorithm: 'token-bucket',
    limitName: 'calls-per-minute',
    windowSeconds: 60,
    message: 'Your plan allows no more calls for now.',
  },
  {
    name: 'demo: a shadow rule for reports',
    resource: '/api/reports/:id',
    scope: 'user',
    algorithm: 'sliding-window-counter',
    limit: 3,
    windowSeconds: 60,
    action: 'log',
  },
] as const;

const ROUTES = [
  { name: 'demo: a Worker', resource: '/worker/*', stripPrefix: '/worker', origin: 'service:DEMO' },
  { name: 'demo: the zone', resource: '/zone/*', origin: 'pass' },
];

/** Resolves to whether the demo set is there, whether new or from an earlier run. */
export async function seedDemoSet(databaseUrl: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const database = drizzle(client, { casing: 'snake_case' });
    if (!(await isEmpty(database))) return (await database.$count(rules, like(rules.name, 'demo: %'))) > 0;
    const keys = await Promise.all((await demoKeys()).map(toRow));
    await database.transaction(async (transaction) => {
      // These are still there if the demo set was removed.
      await transaction.insert(tiers).values(TIERS).onConflictDoNothing();
      await transaction.insert(tenants).values(TENANTS).onConflictDoNothing();
      await transaction.insert(users).values(USERS).onConflictDoNothing();
      await transaction.insert(rules).values([...RULES]);
      await transaction.insert(routes).values(ROUTES);
      await transaction.insert(apiKeys).values(keys);
    });
    return true;
  } finally {
    await client.end();
  }
}

export interface RemovedDemoSet {
  readonly removed: number;
  /** Rules and routes that the person has changed, and so made their own. */
  readonly kept: readonly string[];
}

/** Removes the rules, routes and keys of the demo set. Tiers, tenants and users limit nobody by themselves. */
export async function removeDemoSet(databaseUrl: string): Promise<RemovedDemoSet> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const database = drizzle(client, { casing: 'snake_case' });
    let removed = 0;
    const kept: string[] = [];
    for (const [table, set] of [
      [rules, RULES],
      [routes, ROUTES],
      [apiKeys, KEYS],
    ] as const) {
      const isDemo = inArray(
        table.name,
        set.map(({ name }) => name),
      );
      const gone = await database
        .delete(table)
        .where(and(isDemo, eq(table.updatedAt, table.createdAt)))
        .returning({ name: table.name });
      removed += gone.length;
      const changed = await database
        .select({ name: table.name })
        .from(table)
        .where(and(isDemo, ne(table.updatedAt, table.createdAt)));
      kept.push(...changed.map(({ name }) => name));
    }
    return { removed, kept };
  } finally {
    await client.end();
  }
}

/** Ignores the example rule of a migration, and the tiers of a demo set that was removed. */
async function isEmpty(database: NodePgDatabase): Promise<boolean> {
  const made = await database.$count(rules, notLike(rules.name, 'example: %'));
  const demoTiers = TIERS.map(({ name }) => name);
  const ownTiers = await database.$count(tiers, notInArray(tiers.name, demoTiers));
  return made === 0 && ownTiers === 0 && (await database.$count(apiKeys)) === 0;
}

async function toRow({ key }: DemoKey, place: number) {
  const { letter: _, ...row } = KEYS[place] ?? { name: '', letter: 0 };
  return { ...row, hash: await hashApiKey(key), prefix: prefixOf(key) };
}
