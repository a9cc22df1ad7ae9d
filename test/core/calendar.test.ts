// Which of the published borders an isolate uses.

import { describe, expect, it } from 'vitest';
import { createRule } from '../../local/rules.ts';
import { fixedWindow } from '../../src/core/counting/algorithms/fixed-window.ts';
import { compileCalendars, type PublishedCalendars, windowAt } from '../../src/core/counting/calendar.ts';
import { planRequest } from '../../src/core/matching/plan.ts';
import { compileSnapshot } from '../../src/core/matching/snapshot.ts';
import { decodeSnapshot, encodeSnapshot, versionOf } from '../../src/core/matching/stored-snapshot.ts';

const at = (text: string) => Date.parse(`${text}Z`);
const days = (...dates: string[]) => dates.map((date) => at(`${date}T00:00:00`));
const FIRSTS = days('2026-12-01', '2027-01-01', '2027-02-01', '2027-03-01');
const FIFTEENTHS = days('2026-11-15', '2026-12-15', '2027-01-15', '2027-02-15', '2027-03-15');
const PUBLISHED: PublishedCalendars = {
  borders: { 'month UTC 1': FIRSTS, 'month UTC 15': FIFTEENTHS },
  anchorDays: { acme: 15 },
};
const MONTH = { window: 'month', timeZone: null, anchorDay: null } as const;

const bordersAt = (moment: string, tenantId?: string, scope: 'tenant' | 'user' = 'tenant') =>
  compileCalendars(PUBLISHED)
    ?.bordersFor(MONTH, { rule: { scope, by: [] }, tenantId }, at(moment))
    ?.map((ms) => new Date(ms).toISOString().slice(0, 10));

describe('the borders of a month', () => {
  it('are those around the current time', () => {
    expect(bordersAt('2027-01-31T23:59:59.999')).toEqual([
      '2026-12-01',
      '2027-01-01',
      '2027-02-01',
      '2027-03-01',
    ]);
  });

  it('are those of the tenant if the rule counts tenants', () => {
    expect(bordersAt('2027-01-31T00:00:00', 'acme')?.[1]).toBe('2027-01-15');
    expect(bordersAt('2027-01-31T00:00:00', 'globex')?.[1]).toBe('2027-01-01');
    expect(bordersAt('2027-01-31T00:00:00', 'acme', 'user')?.[1]).toBe('2027-01-01');
  });

  it('continue at the length of the last month beyond the published ones', () => {
    expect(bordersAt('2027-02-28T23:00:00')).toEqual([
      '2027-01-01',
      '2027-02-01',
      '2027-03-01',
      '2027-03-29',
    ]);
    expect(bordersAt('2027-04-01T00:00:00')).toEqual([
      '2027-03-01',
      '2027-03-29',
      '2027-04-26',
      '2027-05-24',
    ]);
  });
});

describe('a check', () => {
  const rule = createRule({
    ...{ ordinal: 0, counterId: 'c', limit: 5, scope: 'tenant', window: 'month', windowSeconds: null },
  });
  const content = { rules: [rule], tiers: [], lists: [], calendars: PUBLISHED };
  const request = (moment: string) => ({
    ...{ matchPath: '/', method: 'GET', nowMs: at(moment), seatId: () => '' },
    caller: { ip: '192.0.2.1', address: '192.0.2.1', tenantId: 'acme' },
  });

  it('has the real length of its window, even after the snapshot was stored', async () => {
    const text = encodeSnapshot(content);
    const stored = await decodeSnapshot(await versionOf(text), text);
    for (const snapshot of [compileSnapshot('v', content), stored]) {
      const plan = snapshot && (await planRequest(snapshot, request('2027-02-20T12:00:00')));
      expect(plan?.kind === 'checks' && plan.checks).toMatchObject([
        {
          id: 'c',
          windowMs: 28 * 86_400_000,
          borders: FIFTEENTHS.slice(2).concat(at('2027-04-12T00:00:00')),
        },
      ]);
    }
  });

  it('falls into the window that the clock of the counters is in', () => {
    const [before, start, end, after] = FIRSTS as [number, number, number, number];
    const windowed = { windowMs: end - start, borders: [before, start, end, after] } as const;
    expect(windowAt(start - 1, windowed)).toEqual({ startMs: before, endMs: start, nextEndMs: end });
    expect(windowAt(start, windowed)).toEqual({ startMs: start, endMs: end, nextEndMs: after });
    expect(windowAt(end, windowed)).toMatchObject({ startMs: end, endMs: after });
  });

  it('lets a stored window end at its own end, even if the borders have changed since', () => {
    const [before, start, end, after] = FIRSTS as [number, number, number, number];
    const borders = [before, start, end, after] as const;
    const params = {
      limit: 5,
      windowMs: end - start,
      borders,
      extra: undefined,
      seatId: '',
      kept: 0,
    };
    const seen = { endMs: start + 1_000, used: 5 };
    expect(fixedWindow.advance(seen, start + 999, params).room).toBe(0);
    expect(fixedWindow.advance(seen, start + 1_000, params).room).toBe(5);
  });
});
