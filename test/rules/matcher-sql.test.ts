// Compares the compiled matcher with the same question in SQL, on the real tables.
import { sql } from 'drizzle-orm';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseFlatRule } from '../../src/core/matching/flat-rule.ts';
import type { TenantLimits, Tier } from '../../src/core/matching/rule.ts';
import { compileSnapshot, type MatchRequest } from '../../src/core/matching/snapshot.ts';
import {
  rules as rulesTable,
  tenants as tenantsTable,
  tiers as tiersTable,
} from '../../src/rules/tables/tables.ts';
import { rounds } from '../rounds.ts';
import { startDatabase, type TestDatabase } from './database.ts';
import { FUNCTIONS, QUESTION } from './matcher-question.ts';
import {
  customerRequest,
  customerRuleSet,
  type RuleRow,
  request,
  ruleSet,
  tenantLimitSet,
  tierSet,
} from './random-rule-sets.ts';

let postgres: TestDatabase;
beforeAll(async () => {
  postgres = await startDatabase();
  for (const definition of FUNCTIONS) await postgres.database.execute(definition);
});
afterAll(() => postgres[Symbol.asyncDispose]());

const RULE_SETS = rounds(40);

describe('the compiled matcher', () => {
  it.each([
    ['picks the rules and limits that SQL picks', ruleSet, request],
    ['does so for exceptions and factors of customers', customerRuleSet, customerRequest],
  ])('%s', async (_, anyRules, anyRequest) => {
    let matched = 0;
    await fc.assert(
      fc.asyncProperty(
        anyRules,
        tierSet,
        tenantLimitSet,
        fc.array(anyRequest, { minLength: 40, maxLength: 60 }),
        async (rules, tiers, tenantLimits, requests) => {
          const inForce = rules.filter(({ enabled }) => enabled);
          const snapshot = compileSnapshot('v', {
            rules: inForce.map(parseFlatRule),
            tiers,
            tenantLimits,
            lists: [],
          });
          const compiled = requests.map((each) =>
            snapshot
              .match(each)
              .map(
                ({ rule, limit, cost }) =>
                  `${rule.name}${rule.isBound ? ' bound' : ''}: ${limit} for ${cost}`,
              ),
          );
          await write(rules, tiers, tenantLimits);
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

async function write(
  rules: readonly RuleRow[],
  tiers: readonly Tier[],
  tenantLimits: TenantLimits,
): Promise<void> {
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
      tenants,
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
      tenants: [...tenants],
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
    database.delete(tenantsTable),
    database.insert(rulesTable).values(rows),
    ...tiers.map((tier) => database.insert(tiersTable).values(tier)),
    ...Object.entries(tenantLimits).map(([id, limits]) =>
      database.insert(tenantsTable).values({ id, limits }),
    ),
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
