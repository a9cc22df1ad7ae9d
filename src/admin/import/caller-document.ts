// Tenants, users, keys and lists in a full export, for a backup or a move to another database. A key is exported as its
// hash: it works after an import, and nobody can read it from a backup.
import { asc, gt } from 'drizzle-orm';
import type { AnyPgColumn, PgTable } from 'drizzle-orm/pg-core';
import * as z from 'zod';
import type { Database } from '../../rules/tables/database.ts';
import { apiKeys, listEntries, tenants, users } from '../../rules/tables/schema.ts';
import { keyBodies, listBodies, tenantBodies, userBodies } from '../schemas.ts';
import { withoutDefaults } from './document-values.ts';

/** A document of 10 MiB has far fewer entries. */
const MAX_ENTRIES = 100_000;
/** Neon answers with 10 MB at most. */
const PAGE_ROWS = 5_000;

export const CALLER_KINDS = ['tenants', 'users', 'keys', 'lists'] as const;
export type CallerKind = (typeof CALLER_KINDS)[number];

export interface CallerPart {
  readonly table: PgTable & { readonly id: AnyPgColumn };
  /** In Postgres, under the schema `weir`. */
  readonly tableName: string;
  /** The fields that tell two entries apart. */
  readonly key: readonly string[];
  readonly defaults: Readonly<Record<string, unknown>>;
  /** All fields, those of the key first. */
  readonly fields: readonly string[];
}

const KEY_DEFAULTS = { name: '', userId: null, tenantId: null, tier: null, expiresAt: null, disabled: false };
const LIST_DEFAULTS = { reason: '', expiresAt: null };

export const CALLER_PARTS: Readonly<Record<CallerKind, CallerPart>> = {
  tenants: partOf(tenants, 'tenants', { key: ['id'], defaults: { name: '', tier: null, anchorDay: null } }),
  users: partOf(users, 'users', { key: ['id'], defaults: { tier: null, tenantId: null } }),
  keys: partOf(apiKeys, 'api_keys', { key: ['id'], also: ['hash', 'prefix'], defaults: KEY_DEFAULTS }),
  lists: partOf(listEntries, 'list_entries', { key: ['list', 'kind', 'value'], defaults: LIST_DEFAULTS }),
};

interface Fields {
  readonly key: readonly string[];
  readonly also?: readonly string[];
  readonly defaults: CallerPart['defaults'];
}

function partOf(
  table: CallerPart['table'],
  tableName: string,
  { key, also = [], defaults }: Fields,
): CallerPart {
  return { table, tableName, key, defaults, fields: [...key, ...also, ...Object.keys(defaults)] };
}

const documentKey = keyBodies.shown
  .omit({ revision: true, createdAt: true, updatedAt: true })
  .partial()
  .required({ id: true, prefix: true })
  .extend({
    hash: z
      .string()
      .regex(/^[0-9a-f]{64}$/, 'must be a SHA-256 in 64 hexadecimal digits')
      .describe('The hash of the key. Weir does not store the key itself.'),
  })
  .strict()
  .meta({ id: 'DocumentKey' });

const listOf = (schema: z.ZodType<Record<string, unknown>>, what: string) =>
  z.array(schema).max(MAX_ENTRIES).optional().describe(`If left out, ${what} stay as they are.`);

export const callerLists = {
  tenants: listOf(tenantBodies.create, 'tenants'),
  users: listOf(userBodies.create, 'users'),
  keys: listOf(documentKey, 'keys'),
  lists: listOf(listBodies.create, 'lists'),
};

export type CallerDocument = { readonly [K in CallerKind]?: readonly Record<string, unknown>[] | undefined };

/** The entries of one kind as the document has them, in pages. */
export async function* readCallerPages(database: Database, kind: CallerKind) {
  const { table, fields, defaults } = CALLER_PARTS[kind];
  for (let after: unknown; ; ) {
    const rows: Record<string, unknown>[] = await database
      .select()
      .from(table)
      .where(after === undefined ? undefined : gt(table.id, after))
      .orderBy(asc(table.id))
      .limit(PAGE_ROWS);
    yield rows.map((row) => withoutDefaults(row, fields, defaults));
    if (rows.length < PAGE_ROWS) return;
    after = rows.at(-1)?.['id'];
  }
}
