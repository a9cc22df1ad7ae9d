// What a valid rule is stands in src/authoring. The constraints of Postgres agree: a real Postgres takes every rule that
// the admin route takes, and refuses all others, but for what only code can judge.
import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { isSame } from '../../src/admin/collection/changes.ts';
import { ruleBodies } from '../../src/admin/schemas.ts';
import { WRITTEN_DEFAULTS } from '../../src/authoring/rule-schema.ts';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import { ACTIONS, RULE_SCOPES } from '../../src/core/matching/rule.ts';
import { startDatabase, type TestDatabase } from './database.ts';

let db: TestDatabase;
let client: pg.Client;
beforeAll(async () => {
  db = await startDatabase();
  client = new pg.Client({ connectionString: db.url });
  await client.connect();
  // Tries each row, and undoes it. Returns the constraint that refuses it, or null.
  await client.query(`
    create function pg_temp.try_rule(given jsonb) returns text language plpgsql as $$
    declare refused text;
    begin
      insert into weir.rules select * from jsonb_populate_record(null::weir.rules, given);
      raise exception using errcode = 'WR000';
    exception
      when sqlstate 'WR000' then return null;
      when others then get stacked diagnostics refused = constraint_name;
        return coalesce(nullif(refused, ''), sqlerrm);
    end $$`);
});
afterAll(async () => {
  await client.end();
  await db[Symbol.asyncDispose]();
});

type Body = Readonly<Record<string, unknown>>;

const limit = (fields: Body): Body => ({ limit: 5, windowSeconds: 60, ...fields });

/** Values of each field: good ones, and ones at and beyond its bounds. */
const VALUES: Readonly<Record<string, readonly unknown[]>> = {
  name: ['', 'x'.repeat(128), 'x'.repeat(129), 'a\u0001'],
  policy: ['search', 'Search', 'x'.repeat(64)],
  resource: [null, '/a', '/users/:id', 'a', `/${'x'.repeat(1024)}`],
  resources: [
    ['/a'],
    ['/a', '/b/*'],
    ['/users/:id', '/b/:id'],
    ['a'],
    Array.from({ length: 21 }, (_, i) => `/${i}`),
  ],
  methods: [['GET', 'POST'], ['get'], ['']],
  scope: RULE_SCOPES,
  tiers: [['free']],
  tenants: [['acme'], ['acme-*']],
  per: [['route'], ['method'], ['route', 'method']],
  by: [['user'], ['ip', 'header:X-Model'], ['param:id'], ['ip', 'user', 'country', 'asn'], ['cookie:x']],
  boundTimes: [1, 10, 0, 1_000_000, 1_000_001],
  hosts: [
    ['a.example'],
    ['*.example'],
    ['a b'],
    ['*'],
    ['A.example'],
    [''],
    ['a..example'],
    [`${'x.'.repeat(127)}x`],
  ],
  routes: [['blue']],
  subjects: [['a'], ['acme-*'], ['192.0.2.1']],
  percent: [0, 50, 100, -1, 101],
  algorithm: [...ALGORITHM_IDS, null],
  limit: [null, 1, 5, 0, 1_000_000_000_000, 1_000_000_000_001],
  limitClaim: ['quota', '', 'https://x.example/quota', 'x'.repeat(128), 'x'.repeat(129)],
  limitMax: [5, 9, 4, 0, 1_000_000_000_000, 1_000_000_000_001],
  limitName: ['calls', '', 'x'.repeat(64), 'x'.repeat(65)],
  windowSeconds: [null, 1, 29, 30, 0, 366 * 86_400, 366 * 86_400 + 1],
  window: ['day', 'week', 'month'],
  timeZone: ['Europe/Berlin', '+01:00', 'Mars/Olympus'],
  anchorDay: [1, 31, 0, 32],
  burst: [1, 5, 50, 0, 1_000_000_000_001],
  buckets: [1, 100, 0, 101],
  limits: [
    [limit({})],
    [limit({}), limit({ windowSeconds: 1 })],
    [limit({}), limit({})],
    [limit({ window: 'day' })],
    [{ limit: 5, window: 'day', timeZone: 'Europe/Berlin' }],
    [{ limit: 5, window: 'month', anchorDay: 31, algorithm: 'fixed-window' }],
    [{ limit: 5, window: 'day', anchorDay: 1, algorithm: 'fixed-window' }],
    [limit({ timeZone: 'UTC' })],
    [limit({ algorithm: 'token-bucket', burst: 9 })],
    [limit({ algorithm: 'gcra', buckets: 9 })],
    [limit({ limitClaim: 'quota', limitMax: 5 })],
    [limit({ limitClaim: 'quota', limitMax: 4 })],
    [limit({ limitClaim: 'quota' })],
    [limit({ limitMax: 9 })],
    [{ windowSeconds: 5, limitName: 'calls', limitClaim: 'quota', limitMax: 9 }],
    [limit({ algorithm: 'concurrency' })],
    [limit({ limit: 0 })],
    [{ limit: 5 }],
    [{ windowSeconds: 5 }],
    [{ windowSeconds: 5, limitName: 'calls' }],
    Array.from({ length: 6 }, (_, i) => limit({ windowSeconds: i + 1 })),
  ],
  cost: [2, 0, 5, 6, 1_000_000_000, 1_000_000_001],
  costs: [
    [{ resource: '/a', cost: 2 }],
    [{ resource: 'a', cost: 2 }],
    [{ resource: '/a', cost: 0 }],
    [{ resource: '/a', cost: 6 }],
  ],
  costFromOrigin: [true],
  refundOnError: [true],
  action: ACTIONS,
  times: [2, 0.0001, 1_000_001],
  replaces: [true],
  maxDelayMs: [1, 30_000, 0, 30_001],
  priority: [-1],
  countDenied: [true],
  blockSeconds: [1, 0, 366 * 86_400 + 1],
  status: [400, 599, 399, 600],
  message: ['x'.repeat(1024), 'x'.repeat(1025)],
  onUnavailable: ['closed', 'local'],
  alertAt: [[80, 100], [0], [101], [1, 2, 3, 4, 5, 6]],
  shares: [{ eu: 1 }, { eu: 0 }, { eu: -1 }, {}],
  spill: [false],
  central: [true],
  lease: [false],
  validFrom: ['2030-01-01T00:00:00Z'],
  validUntil: ['2031-01-01T00:00:00Z', '2029-01-01T00:00:00Z'],
};

const SEVERAL: Body = { limit: null, windowSeconds: null, limits: [limit({}), limit({ windowSeconds: 1 })] };
const QUEUE: Body = { action: 'throttle', algorithm: 'leaky-bucket' };

/** Fields that go together. They make most of the rules that are valid but unusual. */
const FORMS: readonly Body[] = [
  {},
  SEVERAL,
  { resource: null, resources: ['/a', '/users/:id'] },
  { algorithm: 'fixed-window', windowSeconds: null, window: 'month' },
  { algorithm: 'concurrency' },
  { algorithm: 'token-bucket', burst: 9 },
  QUEUE,
  { scope: 'user', limitClaim: 'quota', limitMax: 9 },
  { action: 'multiply', times: 2 },
  { action: 'allow' },
  { action: 'multiply', times: 2, scope: 'all', tenants: ['acme'] },
  { action: 'allow', scope: 'all' },
  { action: 'allow', algorithm: 'concurrency' },
  { action: 'allow', algorithm: null, limit: null, windowSeconds: null },
];

const change = fc
  .constantFrom(...Object.keys(VALUES))
  .chain((field) => fc.constantFrom(...(VALUES[field] ?? [])).map((value): Body => ({ [field]: value })));
const bodyOf = (...said: readonly Body[]): Body => ({
  ...WRITTEN_DEFAULTS,
  ...{ name: 'rule', resource: '/a', limit: 5, windowSeconds: 60, validFrom: null, validUntil: null },
  ...Object.assign({}, ...said),
});
const body = fc
  .tuple(fc.constantFrom(...FORMS), fc.array(change, { maxLength: 3 }))
  .map(([form, changes]) => bodyOf(form, ...changes));

/** What only code judges, each with a rule: arithmetic, lists entry by entry, where a rule is counted. */
const ONLY_IN_CODE: readonly (readonly [RegExp, Body])[] = [
  [/^by\/\d: is no parameter of /, { by: ['param:id'] }],
  [/^(cost|costs\/\d\/cost): is more than the limit can ever hold/, { cost: 6 }],
  [/^costFromOrigin: cannot go with throttle/, { ...QUEUE, costFromOrigin: true }],
  [/^hosts\/\d: must be a host .* without scheme, port and path$/, { hosts: [`${'x.'.repeat(127)}x`] }],
  [/^limit: .* takes a limit of up to 100000$/, { algorithm: 'sliding-window-log', limit: 100_001 }],
  [/^limit: is too large for so long a window$/, { limit: 1_000_000_000_000 }],
  [
    /^limit: is too small for so large a burst: an empty bucket would take more than 34 years to fill$/,
    { algorithm: 'token-bucket', limit: 1, windowSeconds: 86_400, burst: 100_000 },
  ],
  [
    /^limits\/\d\/\w+: is that of another limit of this rule$/,
    { ...SEVERAL, limits: [limit({}), limit({})] },
  ],
  [/^limits\/\d\/\w+: belongs to /, { ...SEVERAL, limits: [limit({ buckets: 9 })] }],
  [/^(limits\/\d\/)?limitClaim: needs a counter of the caller’s own/, { limitClaim: 'quota', limitMax: 9 }],
  [
    /^limitMax: .* takes a limit of up to 100000$/,
    { scope: 'user', algorithm: 'sliding-window-log', limitClaim: 'quota', limitMax: 100_001 },
  ],
  [
    /^limitMax: is too large for so long a window$/,
    { scope: 'user', limitClaim: 'quota', limitMax: 1_000_000_000_000 },
  ],
  [/^methods\/0: must be upper-case letters$/, { methods: [''] }],
  [/^per: route takes several resources/, { per: ['route'] }],
  [/^shares: cannot be split over regions that help each other out/, { ...QUEUE, shares: { eu: 1 } }],
];
const RULES = 4_000;

it('Postgres takes the rules that the admin route takes, and refuses the others', async () => {
  const examples = ONLY_IN_CODE.map(([, example]) => bodyOf(example));
  const bodies = [...examples, ...fc.sample(body, { numRuns: RULES })];
  const judged = bodies.map((one) => ruleBodies.create.safeParse(one));
  const rows = bodies.map((one, i) => toRow({ ...one, ...judged[i]?.data }));
  const { rows: answers } = await client.query<{ refused: string | null }>(
    'select pg_temp.try_rule(row) as refused from jsonb_array_elements($1::jsonb) with ordinality as t (row, n) order by n',
    [JSON.stringify(rows)],
  );
  const met = new Set<RegExp>();
  const differing = new Map<string, string>();
  for (const [i, { refused }] of answers.entries()) {
    const problems =
      judged[i]?.error?.issues.map(({ path, message }) => `${path.join('/')}: ${message}`) ?? [];
    if (problems.length === 0 && refused !== null)
      differing.set(`Postgres alone refuses: ${refused}`, said(bodies[i]));
    if (refused !== null) continue;
    for (const problem of problems) {
      const expected = ONLY_IN_CODE.find(([pattern]) => pattern.test(problem));
      if (expected) met.add(expected[0]);
      else differing.set(`Postgres takes: ${problem}`, said(bodies[i]));
    }
  }
  expect(Object.fromEntries(differing)).toEqual({});
  expect(ONLY_IN_CODE.filter(([pattern]) => !met.has(pattern))).toEqual([]);
  // If most rules were refused, or hardly any, agreement would prove little.
  expect(judged.filter(({ success }) => success).length / RULES).toBeGreaterThan(0.3);
  expect(judged.filter(({ success }) => !success).length / RULES).toBeGreaterThan(0.3);
});

/** What a body says beyond defaults. */
const said = (body: Body = {}) => {
  const usual = bodyOf();
  return JSON.stringify(
    Object.fromEntries(Object.entries(body).filter(([field, value]) => !isSame(value, usual[field]))),
  );
};

/** A row as JSON, with the names of columns. */
const toRow = (values: Body): Body => ({
  ...Object.fromEntries(Object.entries(values).map(([field, value]) => [toColumn(field), value])),
  ...{ id: crypto.randomUUID(), revision: 1, created_at: 'now', updated_at: 'now', ordinal: 1_000_000 },
});
const toColumn = (field: string) => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
