// How Weir decides, and what becomes of charges, if the only region that can count one of the rules is down.
import { describe, expect, it, vi } from 'vitest';
import type { RuleFields } from '../../local/rules.ts';
import type { Decision } from '../../src/core/decision.ts';
import type { OnUnavailable } from '../../src/core/matching/rule.ts';
import { createLedger } from '../../src/limiter/ledger.ts';
import { denies, fails } from './fake-regions.ts';
import { timed, useFakeTime } from './limiter-harness.ts';
import { aloneIn, checkOf, near, openRegions } from './regional-isolate.ts';

useFakeTime();

describe('if the only region that counts a rule is down', () => {
  const farIs = (onUnavailable: OnUnavailable, rule: RuleFields = {}) =>
    aloneIn('eu', 'far', { onUnavailable, ...rule });

  it.each([
    ['open', true],
    ['local', true],
    ['closed', false],
  ] as const)('the fallback %s decides, and the decision names it', async (onUnavailable, allowed) => {
    const { decide, settle, us, eu, left } = openRegions();
    eu.does.run = fails('unavailable');
    const decision = await decide([near(), farIs(onUnavailable)]);
    expect(decision).toMatchObject({
      kind: 'degraded',
      allowed,
      reason: 'unavailable',
      fallback: onUnavailable,
    });
    await settle();
    expect(left(us, near(), 4)).toBe(allowed ? 3 : 4);
  });

  it('a denial by this isolate refunds the charges of other regions, once', async () => {
    const { decide, settle, asked, us, eu, left } = openRegions();
    eu.does.run = fails('unavailable');
    const checks = [near(), aloneIn('eu', 'far', { onUnavailable: 'local' }, { limit: 1 })];
    expect([(await decide(checks)).allowed, (await decide(checks)).allowed]).toEqual([true, false]);
    await settle();
    expect(asked().filter((line) => line === 'us refund')).toHaveLength(1);
    expect(left(us, near(), 4)).toBe(3);
  });

  it('charges of other regions are settled and refunded like any other charge', async () => {
    const { decide, us, eu, left } = openRegions();
    eu.does.run = fails('unavailable');
    const check = near({ rule: { costFromOrigin: true, refundOnError: true } });
    const ledger = createLedger(() => {});
    await decide([check, farIs('open')], { ledger });
    expect(ledger.needsFollowUp).toBe(true);
    await timed(() => ledger.settle(3));
    expect(left(us, check, 4)).toBe(1);
    await timed(() => ledger.refundError());
    expect(left(us, check, 4)).toBe(2);
  });

  it('seats in other regions are released', async () => {
    const { decide, us, eu, left } = openRegions();
    eu.does.run = fails('unavailable');
    const held = aloneIn('us', 'held', {}, { algorithm: 'concurrency' });
    const ledger = createLedger(() => {});
    await decide([held, farIs('open')], { ledger });
    expect(ledger.needsFollowUp).toBe(true);
    await timed(() => ledger.release());
    expect(left(us, { ...held, seatId: 'seat-09999999999' })).toBe(12);
  });

  it('seats are not released in a region that was never asked for them', async () => {
    const { decide, asked, eu } = openRegions();
    eu.does.run = fails('unavailable');
    const held = aloneIn('us', 'held', {}, { algorithm: 'concurrency' });
    const ledger = createLedger(() => {});
    await decide([held, farIs('open')], { ledger });
    void ledger.release();
    await vi.advanceTimersByTimeAsync(20_000);
    expect(asked()).toEqual(['us take', 'eu take', 'us refund']);
  });

  it('seats are released in a region that has not answered, even if they were counted elsewhere', async () => {
    const { decide, us } = openRegions();
    const { run } = us.does;
    const asked: string[] = [];
    us.does.run = async (call, signal) => {
      asked.push(...call.checks.map(({ id }) => `${call.operation} ${id}`));
      await run(call, signal);
      return fails('timeout')();
    };
    const held = checkOf('held', { algorithm: 'concurrency', rule: { spill: false } });
    const ledger = createLedger(() => {});
    const decision = await decide([held, aloneIn('us', 'alone')], { ledger });
    expect(decision).toMatchObject({ kind: 'degraded', allowed: true });
    expect(ledger.charges).toMatchObject([{ check: { id: 'alone' } }, { check: { id: 'held' } }]);
    us.does.run = (call, signal) => {
      asked.push(...call.checks.map(({ id }) => `${call.operation} ${id}`));
      return run(call, signal);
    };
    await timed(() => ledger.release());
    expect(asked).toEqual(['take held', 'take alone', 'refund held']);
  });

  const denied = (decision: Decision) => expect(decision).toMatchObject({ kind: 'counted', allowed: false });

  it.each(['open', 'closed'] as const)(
    'a denial by another region stands if the rule is %s, is remembered, and refunds other charges once',
    async (onUnavailable) => {
      const { decide, settle, asked, us, eu, ap, left } = openRegions();
      await decide([near({ limit: 24 })]);
      eu.does.run = fails('unavailable');
      ap.does.run = denies(30_000);
      const checks = [near({ limit: 24 }), farIs(onUnavailable), aloneIn('ap', 'farther')];
      for (let i = 0; i < 2; i += 1) {
        denied(await decide(checks));
        await settle();
      }
      expect(asked()).toEqual(['us take', 'us take', 'eu take', 'ap take', 'us refund']);
      expect(left(us, near(), 8)).toBe(7);
    },
  );

  it('a denial by the next region stands, although only the nearest region can count another rule', async () => {
    const { decide, us, eu } = openRegions();
    us.does.run = fails('unavailable');
    eu.does.run = denies(30_000);
    denied(await decide([near({ rule: { spill: false } }), aloneIn('us', 'alone')]));
  });

  it.each([
    ['the nearest region', 'us', 'eu', near({ rule: { spill: false } })],
    ['another region', 'eu', 'ap', aloneIn('ap', 'farther')],
  ] as const)(
    'a seat that %s may hold is released if a different region denies',
    async (_, gone, denying, other) => {
      const { decide, settle, left, ...regions } = openRegions();
      const { run } = regions[gone].does;
      regions[gone].does.run = async (call, signal) => {
        const answer = await run(call, signal);
        return call.operation === 'take' ? fails('timeout')() : answer;
      };
      regions[denying].does.run = denies(30_000);
      const held = aloneIn(gone, 'held', {}, { algorithm: 'concurrency' });
      const decision = await decide([held, other]);
      denied(decision);
      await settle();
      expect(left(regions[gone], { ...held, seatId: 'seat-09999999999' })).toBe(12);
    },
  );
});
