// A few rules to try Weir with. Only an empty table gets them: what a person has made stays as it is.
import { drizzle } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import { rules } from '../src/rules/schema.ts';

export const DEMO_RULES = [
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
] as const;

export async function seedDemoRules(databaseUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const database = drizzle(client, { casing: 'snake_case' });
    const isEmpty = (await database.$count(rules)) === 0;
    if (isEmpty) await database.insert(rules).values([...DEMO_RULES]);
  } finally {
    await client.end();
  }
}
