// Compares the compiled matcher with the same question in SQL, on the real tables.
import { randomUUID } from 'node:crypto';
import { sql } from 'drizzle-orm';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Caller } from '../../src/core/matching/caller.ts';
import { canonicalPath } from '../../src/core/matching/canonical-path.ts';
import { NO_FACTS } from '../../src/core/matching/counted-by.ts';
import {
  type Per,
  type RouteCost,
  RULE_DEFAULTS,
  SCOPES,
  type Tier,
  type WrittenLimit,
} from '../../src/core/matching/rule.ts';
import { compileSnapshot, type MatchRequest, type PublishedRule } from '../../src/core/matching/snapshot.ts';
import { rules as rulesTable, tiers as tiersTable } from '../../src/rules/tables/schema.ts';
import { rounds } from '../rounds.ts';
import { startDatabase, type TestDatabase } from './database.ts';

let postgres: TestDatabase;
beforeAll(async () => {
  postgres = await startDatabase();
  for (const definition of FUNCTIONS) await postgres.database.execute(definition);
});
afterAll(() => postgres[Symbol.asyncDispose]());

const RULE_SETS = rounds(40);
/** The database orders uuids like their text. */
const IDS = Array.from({ length: 25 }, () => randomUUID());

const MOMENTS_MS = ['2030-01-01', '2030-02-01', '2030-03-01'].map(Date.parse);
const isBackwards = ({ validFromMs, validUntilMs }: Pick<PublishedRule, 'validFromMs' | 'validUntilMs'>) =>
  validFromMs !== null && validUntilMs !== null && validFromMs >= validUntilMs;

type RuleRow = PublishedRule & { readonly enabled: boolean };

/** Each value is rare, so that rules have few conditions and meet requests. */
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

/** Also names that begin alike. */
const ruleResource = fc.oneof(
  { weight: 4, arbitrary: resource },
  { weight: 1, arbitrary: fc.constantFrom('/a*', '/B*', '/a/b*', '/:id/c*', '/{id}/c.d*', '/c*') },
);

const limits = fc
  .record({ limit: fc.constantFrom(null, 1, 2, 3), limitName: fc.constantFrom(null, 'requests', 'exports') })
  .filter(({ limit, limitName }) => limit !== null || limitName !== null);

const several = fc.constantFrom<WrittenLimit[][]>(
  [],
  [],
  [
    { limit: 4, windowSeconds: 1 },
    { limitName: 'exports', windowSeconds: 60 },
    { limit: 5, limitName: 'requests', windowSeconds: 3600 },
    { limit: 6, window: 'month', timeZone: 'Europe/Berlin', anchorDay: 15 },
  ],
);
const costs = fc.oneof(
  { weight: 2, arbitrary: fc.constant<RouteCost[]>([]) },
  {
    weight: 1,
    arbitrary: fc.array(
      fc
        .record({ resource, methods: someOf('GET', 'POST'), cost: fc.integer({ min: 2, max: 9 }) })
        .map(({ methods, ...one }) => (methods.length > 0 ? { ...one, methods } : one)),
      { maxLength: 5 },
    ),
  },
);

/** A rule that multiplies has none of these. */
const OF_CALLERS = { methods: [], hosts: [], by: [], per: [], replaces: false };

const ruleFields = fc
  .record({
    resource: ruleResource,
    others: fc.array(ruleResource, { maxLength: 2 }),
    by: fc.constantFrom<string[][]>([], [], [], ['country'], ['user', 'header:X-Model']),
    per: fc.constantFrom<Per[][]>([], [], ['route', 'method']),
    hosts: someOf('a.example', '*.example'),
    scope: fc.constantFrom(...SCOPES),
    action: fc.constantFrom('reject', 'reject', 'reject', 'log', 'allow', 'multiply'),
    replaces: fc.constantFrom(false, false, false, true),
    several,
    costs,
    methods: someOf('GET', 'HEAD', 'POST'),
    tiers: someOf('free', 'premium', 'gone'),
    subjects: someOf('u1', 'u2', '192.0.2.1', 'u*', '*'),
    percent: fc.constantFrom(100, 100, 100, 40),
    validFromMs: fc.constantFrom(null, null, ...MOMENTS_MS),
    validUntilMs: fc.constantFrom(null, null, ...MOMENTS_MS),
    priority: fc.integer({ min: 1, max: 3 }),
    enabled: fc.constantFrom(true, true, true, false),
    limits,
    window: fc.constantFrom(
      { windowSeconds: 60, window: null, timeZone: null },
      { windowSeconds: null, window: 'day' as const, timeZone: 'Asia/Tokyo' },
    ),
  })
  .map(({ limits, several, subjects, others, window, ...fields }) => ({
    ...fields,
    resources: others.length > 0 ? [fields.resource, ...others] : [],
    ...(several.length > 0 ? { limits: several } : { ...limits, ...window }),
    ...(fields.scope === 'global' && {
      percent: 100,
      by: fields.by.filter((part) => part !== 'header:X-Model'),
    }),
    ...(isBackwards(fields) && { validUntilMs: null }),
    ...(fields.action === 'multiply' && { ...OF_CALLERS, times: fields.priority / 2 }),
    subjects: subjects.filter(
      (one) => fields.scope !== 'global' && !(fields.scope === 'ip' && one.endsWith('*')),
    ),
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
  facts: fc
    .constantFrom('a.example', 'b.example', 'other')
    .map((host) => ({ ...NO_FACTS, host: () => host })),
  caller,
  nowMs: fc.constantFrom(0, ...MOMENTS_MS, Date.parse('2031-01-01')),
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
            snapshot
              .match(each)
              .map(
                ({ rule, limit, cost }) =>
                  `${rule.name}${rule.isBound ? ' bound' : ''}: ${limit} for ${cost}`,
              ),
          );
          await write(rules, tiers);
          const asked = await askPostgres(requests);
          expect(compiled.map((names) => names.toSorted())).toEqual(asked.map((names) => names.toSorted()));
          matched += compiled.flat().length;
        },
      ),
      { numRuns: RULE_SETS },
    );
    // If no rule matched any request, agreement would prove nothing.
    expect(matched).toBeGreaterThan(RULE_SETS * 10);
  });
});

async function write(rules: readonly RuleRow[], tiers: readonly Tier[]): Promise<void> {
  const { database } = postgres;
  const rows = rules.map(
    ({
      counterId: _,
      resource,
      resources,
      validFromMs,
      validUntilMs,
      methods,
      tiers,
      subjects,
      by,
      per,
      hosts,
      routes,
      limits,
      costs,
      ...row
    }) => ({
      ...row,
      resource: resources.length > 0 ? null : resource,
      resources: [...resources],
      methods: [...methods],
      tiers: [...tiers],
      subjects: [...subjects],
      by: [...by],
      per: [...per],
      hosts: [...hosts],
      routes: [...routes],
      limits: [...limits],
      costs: [...costs],
      validFrom: toDate(validFromMs),
      validUntil: toDate(validUntilMs),
    }),
  );
  await database.batch([
    database.delete(rulesTable),
    database.delete(tiersTable),
    database.insert(rulesTable).values(rows),
    ...tiers.map((tier) => database.insert(tiersTable).values(tier)),
  ]);
}

const toDate = (ms: number | null) => (ms === null ? null : new Date(ms));

async function askPostgres(requests: readonly MatchRequest[]): Promise<string[][]> {
  const asked = requests.map(({ matchPath, method, caller, nowMs, facts }, number) => ({
    number,
    host: facts?.host(),
    matchPath,
    method,
    now: new Date(nowMs).toISOString(),
    ...caller,
  }));
  const answers = requests.map((): string[] => []);
  const { database } = postgres;
  const [, { rows }] = await database.batch([
    // Compiling such a long query takes far longer than answering it.
    database.execute(sql`set local jit = off`),
    database.execute<{ number: number; line: string }>(QUESTION(JSON.stringify(asked))),
  ]);
  for (const { number, line } of rows) answers[number]?.push(line);
  return answers;
}

const FUNCTIONS = [
  // One text for all spellings: lower case, no slash at the end, parameters without their names.
  sql`create function slot_of(resource text) returns text language sql immutable as $$
    select regexp_replace(
      regexp_replace(lower(resource), '/(:[^/]+|\\{[^/]+\\})(?=/|$)', '/{}', 'g'), '(.)/$', '\\1') $$`,
  // A prefix is the text before its star, alone or with more segments. All other characters mean themselves.
  sql`create function pattern_of(slot text) returns text language sql immutable as $$
    select '^' || replace(
        regexp_replace(regexp_replace(slot, '/?\\*$', ''), '([.+*?()|^$\\[\\]\\\\])', '\\\\\\1', 'g'), '{}', '[^/]+')
      || case when slot like '%/*' then '(/.*)?$' when slot like '%*' then '' else '$' end $$`,
  // Whether the first matches everything that the second one matches.
  sql`create function contains(wide text, narrow text) returns boolean language sql immutable as $$
    select case when wide like '%*' then replace(regexp_replace(narrow, '/\\*$', ''), '*', '%') ~ pattern_of(wide)
      else narrow not like '%*' and narrow ~ pattern_of(wide) end $$`,
  // Of two resources that match one path, the more specific one sorts first: names, then parameters, then the star.
  sql`create function outline_of(slot text) returns text language sql immutable as $$
    select replace(replace(regexp_replace(replace(
      regexp_replace(slot, '/\\*$', '#2'), '/{}', '#1'), '/[^/#]+', '0', 'g'), '#', ''), '/', '') collate "C" $$`,
  // FNV-1a over the characters, then the finalizer of MurmurHash3. Numeric, because products take 64 bits.
  sql`create function hash_of(data text) returns numeric language plpgsql immutable as $$
    declare
      state bigint := 2166136261;
      letter text;
    begin
      foreach letter in array regexp_split_to_array(data, '') loop
        state := mod((state # ascii(letter))::numeric * 16777619, 4294967296);
      end loop;
      state := mod((state # (state >> 16))::numeric * 2246822507, 4294967296);
      state := mod((state # (state >> 13))::numeric * 3266489909, 4294967296);
      return state # (state >> 16);
    end $$`,
];

const QUESTION = (asked: string) => sql`
  with requests as (
    select number, "matchPath" as path, method, host, now, ip, "userId" as "user", "apiKeyId" as "apiKey", "tenantId" as tenant,
      coalesce((select name from weir.tiers where name = tier), (select name from weir.tiers where is_default)) as tier
    from jsonb_to_recordset(${asked}::jsonb) as request (
      number int, "matchPath" text, method text, host text, now timestamptz, ip text, "userId" text, "apiKeyId" text, "tenantId" text, tier text)
  ),
  slots as (
    select rules.*, slot_of(one) as slot, case action when 'multiply' then action
      else (select string_agg(part, ' ' order by part) from unnest("by") as part) end as by_parts
    from weir.rules, unnest(case resources when '{}' then array[resource] else resources end) as one where enabled
  ),
  -- All of whose resources are among those of the rule that multiplies, or narrower.
  multiplied as materialized (
    select own.id, other.id as by_id from weir.rules as own, weir.rules as other
    where other.action = 'multiply' and other.scope = own.scope and own.enabled and other.enabled and not exists (
      select from slots as narrow where narrow.id = own.id and not exists (
        select from slots as wide where wide.id = other.id and contains(wide.slot, narrow.slot)))
  ),
  winners as (
    select distinct on (number, scope, by_parts, slot, action = 'log') requests.number, requests.path, requests.method,
      requests.tier, slots.*
    from requests join slots on path ~ pattern_of(slot) and path !~ '^/_weir(/|$)'
    where (methods = '{}' or method = any(methods) or (method = 'HEAD' and 'GET' = any(methods)))
      and (tiers = '{}' or requests.tier = any(tiers))
      and (subjects = '{}' or exists (select from unnest(subjects) as one where case scope
        when 'user' then "user" when 'apiKey' then "apiKey" when 'tenant' then tenant when 'ip' then ip
      end like replace(one, '*', '%')))
      and (hosts = '{}' or exists (select from unnest(hosts) as one where host like replace(one, '*', '%')))
      and coalesce(valid_from <= now, true) and coalesce(now < valid_until, true)
      and (percent = 100 or hash_of(id || ' ' || coalesce(case scope
        when 'user' then 'user:' || "user" when 'apiKey' then 'apiKey:' || "apiKey" when 'tenant' then 'tenant:' || tenant
      end, 'ip:' || ip)) * 100 < percent * 4294967296)
    order by number, scope, by_parts, slot, action = 'log', priority, (subjects <> '{}') desc,
      (exists (select from unnest(subjects) as one where one like '%*')), (tiers <> '{}') desc, (methods <> '{}') desc,
      (hosts <> '{}') desc, id
  ),
  applying as (
    select distinct on (number, id) * from winners where action not in ('allow', 'multiply') and not exists (
      select from winners as other where other.number = winners.number and other.scope = winners.scope
        and (other.replaces or other.action = 'allow') and (winners.action = 'log' or other.action <> 'log')
        and other.slot <> winners.slot and contains(winners.slot, other.slot))
  ),
  limited as (
    select number, applying.name, applying."by", applying.bound_times, coalesce((
        select (one ->> 'cost')::int from jsonb_array_elements(costs) with ordinality as list (one, place)
        where path ~ pattern_of(slot_of(one ->> 'resource')) and (not one ? 'methods'
          or one -> 'methods' ? method or (method = 'HEAD' and one -> 'methods' ? 'GET'))
        order by outline_of(slot_of(one ->> 'resource')), one ? 'methods' desc, place limit 1), cost) as cost,
      case when tiers.limits ? (line ->> 'limitName') then (tiers.limits ->> (line ->> 'limitName'))::bigint
        else (line ->> 'limit')::bigint end as "limit", (
        select times from winners as other where other.number = applying.number and other.action = 'multiply'
          and exists (select from multiplied where by_id = other.id and multiplied.id = applying.id)
        order by priority, (subjects <> '{}') desc, (exists (select from unnest(subjects) as one where one like '%*')),
          (tiers <> '{}') desc, id limit 1) as factor
    from applying left join weir.tiers on tiers.name = applying.tier
      cross join jsonb_array_elements(case applying.limits when '[]'
        then jsonb_build_array(jsonb_build_object('limit', applying."limit", 'limitName', limit_name))
        else applying.limits end) as line
  )
  select number, name || suffix || ': ' || case when factor is null then "limit" * times else greatest(1, floor("limit" * times * factor)) end || ' for ' || cost as line from limited
  cross join lateral (
    select '' as suffix, 1 as times union all select ' bound', bound_times where 'header:X-Model' = any("by")) as counter
  where "limit" is not null`;
