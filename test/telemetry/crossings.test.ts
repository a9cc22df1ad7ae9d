// Which thresholds an isolate notes, and how often.
import { describe, expect, it } from 'vitest';
import type { CompiledRule } from '../../src/core/matching/snapshot.ts';
import { decisionOf, openTelemetry, START_MS } from './harness.ts';

const WINDOW_MS = 60_000;
const RULE = { alertAt: [80, 100], windowSeconds: 60 } satisfies Partial<CompiledRule>;

/** What is flushed after decisions under a limit of ten that leave this much. */
function open(isHashed = false) {
  const opened = openTelemetry({ isHashed });
  return {
    ...opened,
    leave: (remaining: number, changes: Parameters<typeof decisionOf>[0] = {}) =>
      opened.decide({ decision: decisionOf({ remaining, rule: RULE, ...changes }) }),
    async crossed() {
      await opened.flush();
      return opened.records.flatMap(({ crossings = [] }) => crossings);
    },
    async percents() {
      return (await this.crossed()).map(({ percent }) => percent);
    },
  };
}

describe('a threshold is noted', () => {
  it('when exactly that percentage of the limit is used, and not a unit earlier', async () => {
    const isolate = open();
    isolate.leave(3);
    expect(await isolate.percents()).toEqual([]);
    isolate.leave(2);
    expect(await isolate.crossed()).toEqual([
      {
        ruleId: 'r',
        ruleName: 'search',
        scope: 'ip',
        subject: '10.0.0.1',
        percent: 80,
        windowStartMs: START_MS,
        windowSeconds: 60,
        limit: 10,
        used: 8,
        atMs: START_MS,
      },
    ]);
  });

  it('once in a window, and again in the next one', async () => {
    const isolate = open();
    const at = (nowMs: number) => isolate.leave(1, { decision: { nowMs } });
    for (let i = 0; i < 5; i += 1) at(START_MS + i);
    at(START_MS + WINDOW_MS - 1);
    expect(await isolate.percents()).toEqual([80]);
    at(START_MS + WINDOW_MS);
    expect((await isolate.crossed()).map(({ windowStartMs }) => windowStartMs)).toEqual([
      START_MS,
      START_MS + WINDOW_MS,
    ]);
  });

  it('for each threshold separately, even if one request passes several', async () => {
    const isolate = open();
    isolate.leave(2);
    isolate.leave(0);
    isolate.decide({
      decision: decisionOf({ remaining: 0, rule: RULE }),
      caller: { ip: '10.0.0.2', address: '10.0.0.2' },
    });
    expect(await isolate.percents()).toEqual([80, 100, 80, 100]);
  });

  it('as 100 percent when a request is denied, even if a smaller one would still fit', async () => {
    const isolate = open();
    isolate.leave(3, { allowed: false });
    expect(await isolate.percents()).toEqual([80, 100]);
  });

  it('by the capacity of a bucket, not by its rate', async () => {
    const isolate = open();
    const leaveInBucket = (remaining: number) => {
      const decision = decisionOf({ remaining, rule: RULE });
      const results = decision.results.map(({ check, outcome }) => {
        const bucket = { ...check, algorithm: 'token-bucket' as const, full: { limit: 10, extra: 50 } };
        return { check: bucket, outcome };
      });
      isolate.decide({ decision: { ...decision, results } });
    };
    leaveInBucket(11);
    expect(await isolate.percents()).toEqual([]);
    leaveInBucket(10);
    expect((await isolate.crossed()).map(({ limit, used }) => [limit, used])).toEqual([[50, 40]]);
  });
});

describe('no threshold is noted', () => {
  it('for a rule without thresholds', async () => {
    const isolate = open();
    isolate.leave(0, { rule: {} });
    expect(await isolate.percents()).toEqual([]);
  });

  it('for a shadow rule', async () => {
    const isolate = open();
    isolate.leave(0, { isShadow: true, allowed: false });
    expect(await isolate.percents()).toEqual([]);
  });

  it('by an isolate that counts alone', async () => {
    const isolate = open();
    const { results, nowMs } = decisionOf({ remaining: 0, rule: RULE });
    const degraded = { kind: 'degraded', allowed: true, reason: 'timeout', fallback: 'open' } as const;
    isolate.decide({ decision: { ...degraded, local: { nowMs, results } } });
    expect(await isolate.percents()).toEqual([]);
  });
});

it('a flood of subjects is noted up to a thousand at a time, and the others with their next requests', async () => {
  const isolate = open();
  const decision = decisionOf({ remaining: 2, rule: RULE });
  const all = () => {
    for (let i = 0; i < 1_500; i += 1) isolate.decide({ decision, caller: { ip: `${i}`, address: `${i}` } });
  };
  all();
  expect(await isolate.percents()).toHaveLength(1_000);
  all();
  expect(new Set((await isolate.crossed()).map(({ subject }) => subject)).size).toBe(1_500);
  for (const batch of isolate.records) expect(JSON.stringify(batch).length).toBeLessThan(128_000);
});

it('with SUBJECTS=hash an address is flushed as its hash', async () => {
  const isolate = open(true);
  isolate.leave(2);
  expect((await isolate.crossed()).map(({ subject }) => subject)).toEqual([
    expect.stringMatching(/^h:[\w-]{22}$/),
  ]);
});
