// What ends a lease before its time, and what that costs.
import { describe, expect, it, vi } from 'vitest';
import { hangs } from './fake-regions.ts';
import { hot, open, openAt, WARM } from './lease-harness.ts';
import { useFakeTime } from './limiter-harness.ts';
import { createMinute } from './model-regions.ts';
import { START_MS } from './rule-checks.ts';

useFakeTime();

describe('an isolate with a lease', () => {
  it('denies a caller on a deny list, and uses no unit for it', async () => {
    const { sendMany, sendPlan, limiter } = open();
    await sendMany(WARM);
    const { units } = limiter.leased();
    const { decision } = await sendPlan({ kind: 'listed', list: 'deny' });
    expect([decision.allowed, limiter.leased().units]).toEqual([false, units]);
  });

  it('uses no leased unit for a request with other rules', async () => {
    const { sendMany, send, limiter, region } = open();
    await sendMany(WARM);
    const { units } = limiter.leased();
    const calls = region.calls.length;
    await send([createMinute({ id: 'changed', limit: 1_000 })]);
    expect([limiter.leased().units, region.calls.length]).toEqual([units, calls + 1]);
  });

  it('uses all leased units while Redis is silent, and then decides by itself', async () => {
    const { region, send, sendMany, limiter } = open();
    await sendMany(WARM);
    const { units } = limiter.leased();
    region.does.run = (_, signal) => hangs(signal);
    for (let i = 0; i < units; i += 1) expect((await send()).decision.kind).toBe('counted');
    expect((await send()).decision.kind).toBe('degraded');
  });

  it('reports how many units of a counter it has leased, and that another counter is never leased', async () => {
    const { sendMany, limiter } = open();
    await sendMany(WARM);
    const { units } = limiter.leased();
    const never = createMinute({ id: 'never', rule: { lease: false } });
    expect([limiter.leasedOf(hot), limiter.leasedOf(never)]).toEqual([units, undefined]);
  });
});

describe('an isolate that dies', () => {
  it('loses no more units than it uses in half a second, and only until the window ends', async () => {
    const dying = open();
    await dying.sendMany(WARM);
    const lost = dying.limiter.leased().units;
    const heir = openAt(dying.region);
    const decisions = await heir.sendMany(1_000);
    const admitted = decisions.filter(({ allowed }) => allowed).length;
    expect(lost).toBeGreaterThan(0);
    expect(lost).toBeLessThanOrEqual(100);
    expect(admitted).toBe(1_000 - WARM - lost);
    vi.setSystemTime(START_MS + 60_000);
    const next = await openAt(dying.region).sendMany(1_001);
    expect(next.filter(({ allowed }) => allowed)).toHaveLength(1_000);
  });
});
