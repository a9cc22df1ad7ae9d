// Checks the values of a deployment before anything is done with them: as the Worker will read them, and at the
// services.
import pg from 'pg';
import { compareClocks, type Finding, findPageHost, findRegion } from '../../src/admin/smoke.ts';
import { createClient } from '../../src/redis/client.ts';
import { StackError } from '../ports.ts';
import type { Answers } from './answers.ts';

const CONNECT_MS = 10_000;

export async function checkServices({ regions, databaseUrl, adminHost }: Answers): Promise<Finding[]> {
  const found = await Promise.all(
    regions.map(({ name, url, token }) =>
      findRegion({ name, client: createClient({ url, token }) }, { now: Date.now }),
    ),
  );
  return [
    ...found.flatMap(({ findings }) => findings),
    ...compareClocks(found),
    await findPostgres(databaseUrl),
    findPageHost(adminHost),
  ];
}

async function findPostgres(databaseUrl: string): Promise<Finding> {
  const client = new pg.Client({ connectionString: databaseUrl, connectionTimeoutMillis: CONNECT_MS });
  const check = { part: 'postgres', check: 'answers' };
  try {
    await client.connect();
    const { rows } = await client.query<{ version: string }>(
      `select current_setting('server_version') as version`,
    );
    return { ...check, state: 'ok', found: `version ${rows[0]?.version}` };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return {
      ...check,
      state: 'failed',
      found: `it does not answer (${code ?? 'no code'})`,
      advice: 'Check databaseUrl.',
    };
  } finally {
    await client.end().catch(() => {});
  }
}

export function expectAllWell(findings: readonly Finding[]): void {
  const failed = findings.filter(({ state }) => state === 'failed');
  if (failed.length === 0) return;
  const lines = failed.map(
    ({ part, check, found, advice }) => `  ${part}, ${check}: ${found}. ${advice ?? ''}`,
  );
  throw new StackError(`nothing was changed, because\n${lines.join('\n')}`);
}
