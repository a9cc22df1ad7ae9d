// Who the subject of a check is, by the scope of its rule.
import { expect, it } from 'vitest';
import { planChecks, readCall } from '../../src/checks/call.ts';

/** The caller that the limit of the rule is looked up for, or the error. */
async function planFor(scope: string, subject?: string) {
  const callers: unknown[] = [];
  const rule = { scope, by: [], per: [], validFromMs: null, validUntilMs: null };
  const snapshot = {
    rulesNamed: () => [{ rule, counters: [{}] }],
    limitOf: (_: unknown, caller: unknown) => {
      callers.push(caller);
      return null;
    },
  };
  const call = readCall({ rule: 'jobs', ...(subject !== undefined && { subject }) });
  const options = { ipv6Prefix: 64, nowMs: 0, seatId: () => 'seat' };
  const { errors } = await planChecks(snapshot as never, call, options);
  return [...callers, ...errors];
}

const NOBODY = { ip: 'unknown', address: 'unknown' };

it.each([
  ['user', 'Ann', { ...NOBODY, userId: 'Ann' }],
  ['tenant', 'ACME', { ...NOBODY, tenantId: 'ACME' }],
  ['apiKey', 'ABC-1', { ...NOBODY, apiKeyId: 'abc-1' }],
  ['ip', '2001:db8::1', { ip: '2001:db8::/64', address: '2001:db8::1' }],
  ['global', undefined, NOBODY],
  ['ip', 'Ann', { pointer: '#/subject', detail: 'is not an IP address' }],
  ['user', undefined, { pointer: '#/subject', detail: 'is missing: the rule counts by user' }],
  [
    'global',
    'Ann',
    { pointer: '#/subject', detail: 'must be left out: a rule of scope global counts everybody together' },
  ],
])('a rule of scope %s with the subject %s counts %j', async (scope, subject, expected) => {
  expect(await planFor(scope, subject)).toMatchObject([expected]);
});
