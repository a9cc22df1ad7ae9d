// One sample of each collection, for tests that go through all of them.
import type { Admin } from './harness.ts';

export const LOGINS = {
  name: 'logins',
  resource: '/login',
  scope: 'ip',
  algorithm: 'fixed-window',
  limit: 5,
  windowSeconds: 60,
} as const;

/** An item as a collection shows it. */
export type Shown = Record<string, unknown> & { id: string; revision: number; warnings?: string[] };

export interface Sample {
  readonly collection: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly id: 'id' | 'name';
  /** The fields shown for `body`, besides id, revision and times. */
  readonly shown: Readonly<Record<string, unknown>>;
  readonly patch: Readonly<Record<string, unknown>>;
  /** The smallest replacement, and what it makes of the sample. */
  readonly replacement: Readonly<Record<string, unknown>>;
  readonly replaced: Readonly<Record<string, unknown>>;
}

export const SAMPLES: readonly Sample[] = [
  {
    collection: 'rules',
    id: 'id',
    body: { ...LOGINS, priority: 7, message: 'slow down', methods: ['POST'] },
    shown: {
      ...LOGINS,
      priority: 7,
      message: 'slow down',
      methods: ['POST'],
      enabled: true,
      cost: 1,
      burst: null,
    },
    patch: { limit: 9 },
    replacement: { resource: '/sign-in', limit: 3, windowSeconds: 30 },
    replaced: {
      name: 'logins',
      resource: '/sign-in',
      scope: 'ip',
      algorithm: 'sliding-window-counter',
      limit: 3,
      priority: 100,
      message: null,
      methods: [],
    },
  },
  {
    collection: 'tiers',
    id: 'name',
    body: {
      name: 'premium',
      displayName: 'Premium',
      priceCents: 2900,
      limits: { calls: 10_000, exports: null },
    },
    shown: {
      name: 'premium',
      displayName: 'Premium',
      priceCents: 2900,
      limits: { calls: 10_000, exports: null },
      isDefault: false,
    },
    patch: { limits: { calls: 20_000 } },
    replacement: {},
    replaced: { name: 'premium', displayName: '', priceCents: 0, limits: {}, isDefault: false },
  },
  {
    collection: 'tenants',
    id: 'id',
    body: { id: 'acme', name: 'Acme', tier: 'premium' },
    shown: { id: 'acme', name: 'Acme', tier: 'premium' },
    patch: { name: 'Acme & Co.' },
    replacement: {},
    replaced: { id: 'acme', name: '', tier: null },
  },
  {
    collection: 'users',
    id: 'id',
    body: { id: 'auth0|7/a b%2F?é', tier: 'premium', tenantId: 'acme' },
    shown: { id: 'auth0|7/a b%2F?é', tier: 'premium', tenantId: 'acme' },
    patch: { tenantId: null },
    replacement: {},
    replaced: { tier: null, tenantId: null },
  },
  {
    collection: 'keys',
    id: 'id',
    body: {
      name: 'CI',
      userId: 'auth0|7/a b%2F?é',
      tenantId: 'acme',
      tier: 'premium',
      expiresAt: '2999-01-01T01:00:00+01:00',
    },
    shown: {
      name: 'CI',
      userId: 'auth0|7/a b%2F?é',
      tenantId: 'acme',
      tier: 'premium',
      expiresAt: '2999-01-01T00:00:00.000Z',
      disabled: false,
    },
    patch: { disabled: true },
    replacement: {},
    replaced: { name: '', userId: null, tenantId: null, tier: null, expiresAt: null, disabled: false },
  },
  {
    collection: 'lists',
    id: 'id',
    body: {
      list: 'deny',
      kind: 'ip',
      value: '203.0.113.0/24',
      reason: 'scraper',
      expiresAt: '2999-01-01T00:00:00Z',
    },
    shown: {
      list: 'deny',
      kind: 'ip',
      value: '203.0.113.0/24',
      reason: 'scraper',
      expiresAt: '2999-01-01T00:00:00.000Z',
    },
    patch: { reason: 'a scraper' },
    replacement: { list: 'allow', kind: 'user', value: 'u1' },
    replaced: { list: 'allow', kind: 'user', value: 'u1', reason: '', expiresAt: null },
  },
  {
    collection: 'routes',
    id: 'id',
    body: {
      name: 'shop',
      host: 'www.example.com',
      resource: '/shop/*',
      origin: 'https://shop.example.net',
      stripPrefix: '/shop',
      timeoutMs: 5_000,
      headers: { 'X-Edge': 'weir' },
    },
    shown: {
      name: 'shop',
      host: 'www.example.com',
      resource: '/shop/*',
      origin: 'https://shop.example.net',
      stripPrefix: '/shop',
      timeoutMs: 5_000,
      hostHeader: null,
      headers: { 'X-Edge': 'weir' },
      enabled: true,
    },
    patch: { enabled: false },
    replacement: { origin: 'pass' },
    replaced: {
      name: 'shop',
      host: '*',
      resource: '/*',
      origin: 'pass',
      stripPrefix: null,
      timeoutMs: null,
      hostHeader: null,
      headers: {},
      enabled: true,
    },
  },
];

export async function create(admin: Admin, collection: string, body: unknown): Promise<Shown> {
  const response = await admin.call(`/${collection}`, { method: 'POST', body });
  if (response.status !== 201) throw new Error(`${collection}: ${response.status} ${await response.text()}`);
  return read(response);
}

export const read = async (response: Response): Promise<Shown> => (await response.json()) as Shown;

export interface ProblemBody {
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly detail?: string;
  readonly errors?: readonly { pointer: string; detail: string }[];
}

export const readProblem = async (response: Response): Promise<ProblemBody> =>
  (await response.json()) as ProblemBody;
