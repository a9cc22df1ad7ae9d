// Helpers for tests of imports: an admin route whose publications are counted, and documents sent to it.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect } from 'vitest';
import { type Admin, startAdmin } from './harness.ts';

export interface Document {
  readonly weir: 1;
  readonly basedOn?: number;
  readonly tiers?: Record<string, unknown>[];
  readonly rules?: Record<string, unknown>[];
  readonly routes?: Record<string, unknown>[];
}
export interface Part {
  readonly created: string[];
  readonly updated: { name: string; changes: Record<string, { from: unknown; to: unknown }> }[];
  readonly deleted: string[];
  readonly unchanged: number;
}
interface Summary {
  readonly dryRun: boolean;
  readonly basedOn: number;
  readonly tiers: Part;
  readonly rules: Part;
  readonly routes: Part;
  readonly warnings: string[];
}

export const EMPTY: Part = { created: [], updated: [], deleted: [], unchanged: 0 };

export const rule = (name: string, more: object = {}) => ({
  name,
  resource: `/${name}`,
  scope: 'user',
  algorithm: 'fixed-window',
  limit: 10,
  windowSeconds: 60,
  ...more,
});

/** Call it once in a test file. Each test starts without rules, users and tiers. */
export function useImports() {
  let admin: Admin;
  let sql: pg.Client;
  let publications = 0;
  beforeAll(async () => {
    admin = await startAdmin({
      publish: async () => {
        publications += 1;
        return { version: 'v', changed: true, ruleCount: 0, rejected: [], warnings: [], regions: [] };
      },
    });
    sql = new pg.Client({ connectionString: admin.db.url });
    await sql.connect();
  });
  afterAll(async () => {
    await sql.end();
    await admin[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    await sql.query('delete from rules; delete from users; delete from tiers; delete from routes');
  });

  const send = (document: unknown, query = '', token?: string) =>
    admin.call(`/import${query}`, { method: 'POST', body: document, token });

  async function take(document: Document, query = ''): Promise<Summary> {
    const response = await send(document, query);
    expect(response.status, await response.clone().text()).toBe(200);
    return (await response.json()) as Summary;
  }

  const exported = async () => (await (await admin.call('/export')).json()) as Required<Document>;
  const stored = async () => (await sql.query('select * from rules order by name')).rows;
  const query = (text: string, values: unknown[] = []) => sql.query(text, values);

  return {
    ...{ send, take, exported, stored, query },
    call: (...call: Parameters<Admin['call']>) => admin.call(...call),
    database: () => admin.db.database,
    publications: () => publications,
  };
}
