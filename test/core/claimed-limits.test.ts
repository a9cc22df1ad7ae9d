// Limits from what is known of a caller: a claim, the limits of its tenant, those of its tier.

import { describe, expect, it } from 'vitest';
import { createRule, type RuleFields } from '../../local/rules.ts';
import { explain } from '../../src/authoring/explain.ts';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import { createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';
import type { Claims } from '../../src/core/matching/caller.ts';
import { planRequest, type RuleCheck } from '../../src/core/matching/plan.ts';
import type { Tier } from '../../src/core/matching/rule.ts';
import { compileSnapshot, type SnapshotContent } from '../../src/core/matching/snapshot.ts';
import { decodeSnapshot, encodeSnapshot, versionOf } from '../../src/core/matching/stored-snapshot.ts';
import { createPlacements } from '../../src/core/regions/placement.ts';

const TIERS: Tier[] = [{ name: 'team', limits: { calls: 50 }, isDefault: true }];
const CLAIM: RuleFields = { scope: 'user', limit: 10, limitClaim: 'quota', limitMax: 1_000 };

const contentOf = (fields: RuleFields, tenantLimits?: SnapshotContent['tenantLimits']): SnapshotContent => ({
  ...{ rules: [createRule(fields)], tiers: TIERS, tenantLimits, lists: [] },
});
const requestOf = (claims?: Claims, tenantId?: string) => ({
  ...{ matchPath: '/', method: 'GET', nowMs: 0, seatId: () => 'seat-00000000000' },
  caller: { ip: '192.0.2.1', address: '192.0.2.1', userId: 'ada', tenantId, claims },
});

async function checkOf(fields: RuleFields, claims?: Claims): Promise<RuleCheck> {
  const plan = await planRequest(compileSnapshot('v', contentOf(fields)), requestOf(claims));
  const [check] = plan.kind === 'checks' ? plan.checks : [];
  return check ?? expect.fail('no check');
}

describe('a limit from a claim', () => {
  it.each<[string | undefined, number, string, string]>([
    ['1', 1, 'claim', 'taken'],
    ['2500', 1_000, 'claim', 'capped'],
    ['1000', 1_000, 'claim', 'taken'],
    ['9'.repeat(256), 1_000, 'claim', 'capped'],
    ['007', 7, 'claim', 'taken'],
    [undefined, 10, 'rule', 'missing'],
    ['0', 10, 'rule', 'unusable'],
    ['-5', 10, 'rule', 'unusable'],
    ['+5', 10, 'rule', 'unusable'],
    ['5.5', 10, 'rule', 'unusable'],
    ['1e3', 10, 'rule', 'unusable'],
    ['0x10', 10, 'rule', 'unusable'],
    [' 5', 10, 'rule', 'unusable'],
    ['٥', 10, 'rule', 'unusable'],
    ['', 10, 'rule', 'unusable'],
    ['unlimited', 10, 'rule', 'unusable'],
  ])('of %j is %i, and explain says why', async (value, limit, limitFrom, use) => {
    const claims = value === undefined ? undefined : { quota: value };
    expect((await checkOf(CLAIM, claims)).limit).toBe(limit);
    const [told] = explain(contentOf(CLAIM), requestOf(claims)).rules;
    expect(told).toMatchObject({ limits: [{ limit, limitFrom, claim: { name: 'quota', value, use } }] });
  });

  it('comes from no claim that merely has a name of every object', async () => {
    expect((await checkOf({ ...CLAIM, limitClaim: 'constructor' }, { quota: '5' })).limit).toBe(10);
  });

  it('comes before that of the tenant, of the tier and of the rule', () => {
    const limitOf = (claims?: Claims, tenantId?: string) => {
      const content = contentOf(
        { ...CLAIM, limitName: 'calls' },
        { acme: { calls: 70 }, free: { calls: null } },
      );
      const [told] = explain(content, requestOf(claims, tenantId)).rules;
      const [match] = compileSnapshot('v', content).match(requestOf(claims, tenantId));
      if (told?.reason !== 'applies') return [match?.limit, told?.reason];
      return [match?.limit, told.limits[0]?.limitFrom];
    };
    expect(limitOf({ quota: '60' }, 'acme')).toEqual([60, 'claim']);
    expect(limitOf({ quota: 'x' }, 'acme')).toEqual([70, 'tenant']);
    expect(limitOf({ quota: '60' }, 'free')).toEqual([60, 'claim']);
    expect(limitOf(undefined, 'free')).toEqual([undefined, 'unlimited']);
    expect(limitOf(undefined, 'globex')).toEqual([50, 'tier']);
  });

  it('is multiplied, and holds in the bound of a rule that counts by what clients choose', async () => {
    const by = { ...CLAIM, by: ['user', 'header:X-Model'], boundTimes: 3 };
    const launch = createRule({ id: 'x', scope: 'user', action: 'multiply', times: 2, ordinal: 2 });
    const content = { ...contentOf(by), rules: [createRule(by), launch] };
    const matches = compileSnapshot('v', content).match(requestOf({ quota: '600' }));
    expect(matches.map(({ limit }) => limit)).toEqual([1_200, 3_600]);
  });

  it.each(ALGORITHM_IDS)(
    'is judged for each request, and two tokens of a user share one counter (%s)',
    async (algorithm) => {
      const counters = createMemoryCounters();
      let seats = 0;
      const admittedWith = async (quota: string) => {
        const check = await checkOf({ ...CLAIM, algorithm }, { quota });
        for (let admitted = 0; ; admitted += 1) {
          seats += 1;
          const seatId = algorithm === 'concurrency' ? String(seats).padStart(16, '0') : undefined;
          const { outcomes } = runChecks('take', [{ ...check, seatId }], 1_800_000_000_000, counters);
          if (!outcomes[0]?.allowed) return admitted;
        }
      };
      expect([await admittedWith('10'), await admittedWith('100'), await admittedWith('10')]).toEqual([
        10, 90, 0,
      ]);
    },
  );

  it('has parts that add up to it, however many limits there were before', async () => {
    const placements = createPlacements({ shares: { us: 1, eu: 2 }, before: [] });
    const check = await checkOf(CLAIM, { quota: '1' });
    for (let limit = 1; limit <= 500; limit += 1)
      for (const { parts } of placements.of({ ...check, limit }, 0))
        expect([...parts.values()].reduce((sum, part) => sum + part.limit, 0)).toBe(limit);
  });
});

describe('a snapshot', () => {
  it('keeps claims and limits of tenants, in a format that old Workers do not read', async () => {
    for (const content of [
      contentOf(CLAIM),
      contentOf({ scope: 'user', limitName: 'calls' }, { acme: { calls: 70 } }),
    ]) {
      const text = encodeSnapshot(content);
      expect(JSON.parse(text).format).toBe(5);
      const kept = await decodeSnapshot(await versionOf(text), text);
      const request = requestOf({ quota: '70' }, 'acme');
      expect(kept?.match(request).map(({ limit }) => limit)).toEqual([70]);
    }
  });
});
