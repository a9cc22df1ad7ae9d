// The admin route on a real Postgres, called as clients call it. Every answer is compared with the OpenAPI document.

import type { AdminServices } from '../../src/admin/app.ts';
import { createAdminApp } from '../../src/admin/app.ts';
import { documentOf } from '../../src/admin/routes/openapi.ts';
import { createEndedSessions } from '../../src/admin/session.ts';
import type { RulesPointer } from '../../src/core/ports/region.ts';
import { type CounterStore, CounterStoreError, operationsBy } from '../../src/core/ports/region.ts';
import { publish } from '../../src/rules/publishing/publish.ts';
import { createRuleReader } from '../../src/rules/publishing/rule-reader.ts';
import { startDatabase, type TestDatabase } from '../rules/database.ts';
import { startKv } from '../rules/kv.ts';
import { createConformance, type OpenApiDocument } from './conformance.ts';

export const TOKENS = {
  admin: { name: 'alice', token: 'a-token-that-may-do-all', role: 'admin' },
  other: { name: 'bob', token: 'another-token-that-may-do-all', role: 'admin' },
  read: { name: 'carol', token: 'a-token-that-may-only-read', role: 'read' },
} as const;

export interface AdminCall {
  readonly token?: string | undefined;
  readonly method?: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Sent unchanged. */
  readonly text?: string;
  readonly headers?: Record<string, string>;
}

export interface Admin extends AsyncDisposable {
  readonly db: TestDatabase;
  readonly document: OpenApiDocument;
  /** `path` is the part after /_weir/admin. */
  call(path: string, options?: AdminCall): Promise<Response>;
}

const unreachable = () => Promise.reject(new CounterStoreError('unavailable', 'not there'));
const store: CounterStore = { ...operationsBy(unreachable), reset: unreachable, probe: unreachable };
const pointer: RulesPointer = {
  read: async () => undefined,
  write: async () => undefined,
  readPublished: async (parts) => parts.map(() => undefined),
  writeParts: async () => undefined,
};
/** These accept announcements, but have no counters. */
const REGIONS = ['us', 'eu', 'ap'].map((name) => ({ name, share: 1, store, pointer }));

export async function startAdmin(overrides: Partial<AdminServices> = {}): Promise<Admin> {
  await using cleanup = new AsyncDisposableStack();
  const db = cleanup.use(await startDatabase());
  const { kv } = cleanup.use(await startKv());
  const { database } = db;
  const now = () => Date.now();
  const origins = { allowsPrivate: false, allowsPlainHttp: false, services: ['DEMO'] };
  const reader = createRuleReader(database, { now, origins });
  const app = createAdminApp({
    database,
    publish: () => publish({ database, reader, kv, now, regions: REGIONS, onError: () => {} }),
    smoke: async () => [],
    endedSessions: createEndedSessions({ database, now }),
    regions: REGIONS,
    fleet: async () => [],
    rulesInForce: async () => undefined,
    auth: { tokens: Object.values(TOKENS) },
    deadlineMs: 1_000,
    ipv6Prefix: 64,
    leasedOf: ({ rule }) => (rule.scope === 'ip' ? 7 : undefined),
    origins: { allowsPrivate: false, allowsPlainHttp: false, services: ['DEMO'] },
    now,
    log: { error: () => {} },
    ...overrides,
  });
  const document: OpenApiDocument = JSON.parse(JSON.stringify(documentOf(app)));
  const conforms = createConformance(document);
  const owned = cleanup.move();
  return {
    db,
    document,
    async call(path, options) {
      const request = toRequest(path, options);
      const response = await app.fetch(request);
      await conforms(request, response.clone());
      return response;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function toRequest(
  path: string,
  { token = TOKENS.admin.token, method = 'GET', body, text, headers }: AdminCall = {},
): Request {
  const sent = text ?? (body === undefined ? undefined : JSON.stringify(body));
  return new Request(`https://weir.test/_weir/admin${path}`, {
    method,
    headers: {
      ...(token && { Authorization: `Bearer ${token}` }),
      ...(sent !== undefined && { 'Content-Type': 'application/json' }),
      ...headers,
    },
    ...(sent !== undefined && { body: sent }),
  });
}
