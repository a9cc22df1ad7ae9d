// The compiled matcher against the same question asked in SQL, over the tables as they are.
import { randomUUID } from 'node:crypto';
import { sql } from 'drizzle-orm';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Caller } from '../../src/core/matching/caller.ts';
import { canonicalPath } from '../../src/core/matching/canonical-path.ts';
import { RULE_DEFAULTS, SCOPES, type Tier } from '../../src/core/matching/rule.ts';
import { type CompiledRule, compileSnapshot, type MatchRequest } from '../../src/core/matching/snapshot.ts';
import { rules as rulesTable, tiers as tiersTable } from '../../src/rules/tables/schema.ts';
import { rounds } from '../rounds.ts';
import { startDatabase, type TestDatabase } from './database.ts';

let postgres: TestDatabase;
beforeAll(async () => {
  postgres = await startDatabase();
});
afterAll(() => postgres[Symbol.asyncDispose]());

const RULE_SETS = rounds(40);
/** The database orders uuids as their text is ordered. */
const IDS = Array.from({ length: 25 }, () => randomUUID());

type RuleRow = CompiledRule & { readonly enabled: boolean };

/** None of them often, so that rules say little and meet. */
const someOf = (...values: string[]) =>
  fc.oneof(
    { weight: 3, arbitrary: fc.constant<string[]>([]) },
    { weight: 2, arbitrary: fc.subarray(values, { minLength: 1, maxLength: 2 }) },
  );

const segment = fc.constantFrom('a', 'A', 'b', 'c.d', 'x:y', 'c+d', ':id', ':other', '{id}', '{Name}');
const resource = fc
  .tuple(
    fc.uniqueArray(segment, { maxLength: 2, selector: (text) => text.replace(/[:{}]/g, '').toLowerCase() }),
    fc.constantFrom('', '', '/', '/*', '/*'),
  )
  .map(([segments, end]) => segments.map((text) => `/${text}`).join('') + end || '/');

const limits = fc
  .record({ limit: fc.constantFrom(null, 1, 2, 3), limitName: fc.constantFrom(null, 'requests', 'exports') })
  .filter(({ limit, limitName }) => limit !== null || limitName !== null);

const ruleFields = fc
  .record({
    resource,
    scope: fc.constantFrom(...SCOPES),
    action: fc.constantFrom('reject', 'reject', 'log'),
    methods: someOf('GET', 'HEAD', 'POST'),
    tiers: someOf('free', 'premium', 'gone'),
    subjects: someOf('u1', 'u2', '192.0.2.1'),
    priority: fc.integer({ min: 1, max: 3 }),
    enabled: fc.constantFrom(true, true, true, false),
    limits,
  })
  .map(({ limits, subjects, ...fields }) => ({
    ...fields,
    ...limits,
    subjects: fields.scope === 'global' ? [] : subjects,
  }));

const ruleSet = fc.array(ruleFields, { minLength: 1, maxLength: IDS.length, size: 'max' }).map((set) =>
  set.map((fields, i): RuleRow => {
    const id = IDS[i] ?? '';
    return {
      ...RULE_DEFAULTS,
      ...fields,
      id,
      name: `rule ${i}`,
      algorithm: 'fixed-window',
      windowSeconds: 60,
      ordinal: i,
      counterId: id,
    };
  }),
);

const tierLimits = fc.dictionary(fc.constantFrom('requests', 'exports'), fc.constantFrom(null, 10, 20), {
  noNullPrototype: true,
});
const tierSet = fc
  .tuple(fc.subarray(['free', 'premium']), tierLimits, tierLimits, fc.constantFrom('free', 'premium', ''))
  .map(([names, first, second, defaultName]) =>
    names.map(
      (name): Tier => ({
        name,
        limits: name === 'free' ? first : second,
        isDefault: name === defaultName,
      }),
    ),
  );

const optionalId = fc.constantFrom(undefined, 'u1', 'u2', '192.0.2.1');
const caller: fc.Arbitrary<Caller> = fc.record({
  ip: fc.constantFrom('192.0.2.1', '192.0.2.2'),
  address: fc.constant('192.0.2.1'),
  userId: optionalId,
  apiKeyId: optionalId,
  tenantId: optionalId,
  tier: fc.constantFrom(undefined, 'free', 'premium', 'gone'),
});
const path = fc
  .array(fc.constantFrom('a', 'B', 'b', 'c.d', 'cxd', 'c+d', 'x:y', 'é', '_weir', '.', '..', 'a;v=1'), {
    maxLength: 4,
  })
  .map((segments) => matchPathOf(`/${segments.join('/')}`));
const request: fc.Arbitrary<MatchRequest> = fc.record({
  matchPath: path,
  method: fc.constantFrom('GET', 'HEAD', 'POST', 'PUT'),
  caller,
});

function matchPathOf(rawPath: string): string {
  const canonical = canonicalPath(new URL(rawPath, 'http://origin').pathname);
  if (!canonical.ok) throw new Error(canonical.reason);
  return canonical.matchPath;
}

describe('the compiled matcher', () => {
  it('picks the rules and limits that SQL picks', async () => {
    let matched = 0;
    await fc.assert(
      fc.asyncProperty(
        ruleSet,
        tierSet,
        fc.array(request, { minLength: 40, maxLength: 60 }),
        async (rules, tiers, requests) => {
          const inForce = rules.filter(({ enabled }) => enabled);
          const snapshot = compileSnapshot('v', { rules: inForce, tiers, lists: [] });
          const compiled = requests.map((each) =>
            snapshot.match(each).map(({ rule, limit }) => `${rule.name}: ${limit}`),
          );
          await write(rules, tiers);
          const asked = await askPostgres(requests);
          expect(compiled.map((names) => names.toSorted())).toEqual(asked.map((names) => names.toSorted()));
          matched += compiled.flat().length;
        },
      ),
      { numRuns: RULE_SETS },
    );
    // Were the rules and requests strangers to each other, agreeing would say nothing.
    expect(matched).toBeGreaterThan(RULE_SETS * 10);
  });
});

async function write(rules: readonly RuleRow[], tiers: readonly Tier[]): Promise<void> {
  const { database } = postgres;
  const rows = rules.map(({ counterId: _, methods, tiers, subjects, ...row }) => ({
    ...row,
    methods: [...methods],
    tiers: [...tiers],
    subjects: [...subjects],
  }));
  await database.batch([
    database.delete(rulesTable),
    database.delete(tiersTable),
    database.insert(rulesTable).values(rows),
    ...tiers.map((tier) => database.insert(tiersTable).values(tier)),
  ]);
}

async function askPostgres(requests: readonly MatchRequest[]): Promise<string[][]> {
  const asked = requests.map(({ matchPath, method, caller }, number) => ({
    number,
    matchPath,
    method,
    ...caller,
  }));
  const answers = requests.map((): string[] => []);
  const { rows } = await postgres.database.execute<{ number: number; name: string; limit: string }>(
    QUESTION(JSON.stringify(asked)),
  );
  for (const { number, name, limit } of rows) answers[number]?.push(`${name}: ${limit}`);
  return answers;
}

const QUESTION = (asked: string) => sql`
  with requests as (
    select number, "matchPath" as path, method, ip, "userId" as "user", "apiKeyId" as "apiKey", "tenantId" as tenant,
      coalesce((select name from tiers where name = tier), (select name from tiers where is_default)) as tier
    from jsonb_to_recordset(${asked}::jsonb) as request (
      number int, "matchPath" text, method text, ip text, "userId" text, "apiKeyId" text, "tenantId" text, tier text)
  ),
  -- One text for all spellings: lower case, no slash at the end, parameters without their names.
  slots as (
    select rules.*, regexp_replace(
      regexp_replace(lower(resource), '/(:[^/]+|\\{[^/]+\\})(?=/|$)', '/{}', 'g'), '(.)/$', '\\1') as slot
    from rules where enabled
  ),
  -- A prefix is what stands before its star, alone or with more segments; all other characters mean themselves.
  patterns as (
    select *, '^' || replace(
        regexp_replace(regexp_replace(slot, '/\\*$', ''), '([.+*?()|^$\\[\\]\\\\])', '\\\\\\1', 'g'), '{}', '[^/]+')
      || case when slot like '%/*' then '(/.*)?$' else '$' end as pattern
    from slots
  ),
  winners as (
    select distinct on (number, scope, slot, action = 'log')
      number, requests.tier, patterns.name, patterns."limit", patterns.limit_name
    from requests join patterns on path ~ pattern and path !~ '^/_weir(/|$)'
    where (methods = '{}' or method = any(methods) or (method = 'HEAD' and 'GET' = any(methods)))
      and (tiers = '{}' or requests.tier = any(tiers))
      and (subjects = '{}' or (case scope
        when 'user' then "user" when 'apiKey' then "apiKey" when 'tenant' then tenant when 'ip' then ip
      end) = any(subjects))
    order by number, scope, slot, action = 'log',
      priority, (subjects <> '{}') desc, (tiers <> '{}') desc, (methods <> '{}') desc, id
  ),
  limited as (
    select number, winners.name,
      case when tiers.limits ? limit_name then (tiers.limits ->> limit_name)::bigint else "limit" end as "limit"
    from winners left join tiers on tiers.name = winners.tier
  )
  select number, name, "limit"::text from limited where "limit" is not null`;
