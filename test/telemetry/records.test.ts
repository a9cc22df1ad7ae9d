// Denials and usage in an isolate: how it sums them up, how much memory and how many messages a flood takes, and that
// no count is lost.
import { describe, expect, it } from 'vitest';
import {
  createDeniedRequests,
  type DeniedRequest,
  MAX_FIRST_REQUESTS,
  MAX_NAMED,
  MAX_OTHER_REQUESTS,
} from '../../src/core/telemetry/records.ts';
import { countDenials, type RecordBatch } from '../../src/telemetry/flush.ts';
import { rounds } from '../rounds.ts';
import { decisionOf, openTelemetry, START_MS } from './harness.ts';

const MINUTE_MS = 60_000;
const denied = decisionOf({ allowed: false, remaining: 0 });
const callerAt = (ip: string) => ({ ip, address: ip });
const countAll = (batches: readonly RecordBatch[]) =>
  batches.reduce((sum, one) => sum + countDenials(one), 0);

describe('denials', () => {
  it('are summed up by minute, rule and subject', async () => {
    const { state, decide, flush, records } = openTelemetry();
    for (let i = 0; i < 3; i += 1) decide({ decision: denied });
    decide({ decision: denied, caller: callerAt('10.0.0.2') });
    decide({ decision: decisionOf({ allowed: false, rule: { id: 'other-rule', name: 'login' } }) });
    state.nowMs += MINUTE_MS;
    decide({ decision: denied });
    await flush();
    const rows = records.flatMap(({ denials }) => denials);
    expect(rows.map(({ atMs, ruleName, subject, count }) => [atMs, ruleName, subject, count])).toEqual([
      [1_800_000_000_000, 'search', '10.0.0.1', 3],
      [1_800_000_000_000, 'login', '10.0.0.1', 1],
      [1_800_000_000_000, 'search', '10.0.0.2', 1],
      [1_800_000_060_000, 'search', '10.0.0.1', 1],
    ]);
  });

  it('of shadow rules are not recorded', async () => {
    const { decide, flush, records } = openTelemetry();
    decide({ decision: decisionOf({ allowed: false, isShadow: true }) });
    await flush();
    expect(records.flatMap(({ denials }) => denials)).toEqual([]);
  });

  it('name the subject of the rule: the user if there is one, else the address', async () => {
    const { decide, flush, records } = openTelemetry();
    const decision = decisionOf({ allowed: false, rule: { scope: 'user' } });
    decide({ decision, caller: { ...callerAt('10.0.0.1'), userId: 'ann' } });
    decide({ decision });
    await flush();
    const rows = records.flatMap(({ denials }) => denials);
    expect(rows.map(({ scope, subject }) => [scope, subject])).toEqual([
      ['user', 'ann'],
      ['ip', '10.0.0.1'],
    ]);
  });

  it('say who called, whatever the rule counts', async () => {
    const { decide, flush, records } = openTelemetry();
    const server = { ...callerAt('10.0.0.1'), tenantId: 'acme', apiKeyId: 'key' };
    for (const caller of [server, server, { ...server, userId: 'ann' }, callerAt('10.0.0.1')])
      decide({ decision: denied, caller });
    await flush();
    const rows = records.flatMap(({ denials }) => denials);
    expect(
      rows.map(({ subject, tenantId, userId, apiKeyId, count }) => [
        ...[subject, tenantId, userId, apiKeyId],
        count,
      ]),
    ).toEqual([
      ['10.0.0.1', 'acme', '', 'key', 2],
      ['10.0.0.1', 'acme', 'ann', 'key', 1],
      ['10.0.0.1', '', '', '', 1],
    ]);
  });

  it('of a tenant with thousands of users keep the tenant, and all are counted', async () => {
    const { decide, flush, records } = openTelemetry();
    const decision = decisionOf({ allowed: false, rule: { scope: 'tenant' } });
    for (let i = 0; i < MAX_NAMED + 500; i += 1)
      decide({ decision, caller: { ...callerAt('10.0.0.1'), tenantId: 'acme', userId: `user ${i}` } });
    decide({ decision, caller: { ...callerAt('10.0.0.1'), tenantId: 'globex', userId: 'eve' } });
    await flush();
    const rows = records.flatMap(({ denials }) => denials);
    expect(rows).toHaveLength(MAX_NAMED + 2);
    expect(rows.find(({ subject, userId }) => subject === 'acme' && userId === 'other')?.count).toBe(500);
    expect(rows.find(({ subject }) => subject === 'globex')).toMatchObject({
      tenantId: 'globex',
      userId: 'other',
      count: 1,
    });
  });

  it('of unknown callers leave the room for callers with an id', async () => {
    const { decide, flush, records } = openTelemetry();
    for (let i = 0; i < MAX_NAMED - 1; i += 1) decide({ decision: denied, caller: callerAt(`10.${i}`) });
    decide({ decision: denied, caller: { ...callerAt('10.9.9.9'), tenantId: 'acme' } });
    decide({ decision: denied, caller: { ...callerAt('10.8.8.8'), tenantId: 'acme' } });
    await flush();
    const rows = records.flatMap(({ denials }) => denials).filter(({ tenantId }) => tenantId !== '');
    expect(rows.map(({ subject, tenantId }) => [subject, tenantId])).toEqual([
      ['10.9.9.9', 'acme'],
      ['other', 'other'],
    ]);
  });

  it('of a flood take a bounded number of rows and messages, and all are counted', async () => {
    const [requests, subjects] = [rounds(50_000, 1_000_000), rounds(5_000, 100_000)];
    const { state, decide, flush, records, flushed } = openTelemetry();
    for (let i = 0; i < requests; i += 1) {
      decide({ decision: denied, caller: callerAt(`10.${i % subjects}`) });
      // Each fifth takes ten seconds.
      if (i % (requests / 5) === requests / 5 - 1) {
        state.nowMs += 10_000;
        await flush();
      }
    }
    await flush();
    const rows = records.flatMap(({ denials }) => denials);
    expect(countAll(records)).toBe(requests);
    expect(flushed()).toMatchObject({ denialsFlushed: requests });
    // Two thousand subjects in one minute, and the others together, at each of five times.
    expect(rows.length).toBeLessThanOrEqual(5 * (MAX_NAMED + 1));
    expect(records.length).toBeLessThanOrEqual(5 * 5);
    for (const batch of records) expect(JSON.stringify(batch).length).toBeLessThan(128_000);
    const other = rows.filter(({ subject }) => subject === 'other');
    expect(other.reduce((sum, { count }) => sum + count, 0)).toBe(
      requests - (requests / subjects) * MAX_NAMED,
    );
  });

  it('are counted in bounded memory while they cannot be flushed, and all are counted', async () => {
    const { state, decide, flush, records } = openTelemetry();
    state.isQueueDown = true;
    for (let minute = 0; minute < 10; minute += 1) {
      for (let i = 0; i < 3_000; i += 1) decide({ decision: denied, caller: callerAt(`10.${minute}.${i}`) });
      await flush();
      state.nowMs += MINUTE_MS;
    }
    expect(records).toEqual([]);
    state.isQueueDown = false;
    await flush();
    expect(countAll(records)).toBe(30_000);
    const rows = records.flatMap(({ denials }) => denials);
    // Those of the first minute, and at most six thousand of all the others.
    expect(rows.length).toBeLessThanOrEqual(MAX_NAMED + 1 + 6_001);
    expect(rows.some(({ ruleId }) => ruleId === 'other')).toBe(true);
  });

  it('keep their batch and its id until it is taken, and are flushed once', async () => {
    const { state, decide, flush, records, tried, errors } = openTelemetry();
    state.isQueueDown = true;
    decide({ decision: denied });
    await flush();
    // A later denial does not get into a batch that may have arrived: that would be written only once.
    decide({ decision: denied });
    await flush();
    expect(errors).toHaveLength(2);
    state.isQueueDown = false;
    await flush();
    const [first] = records;
    expect(tried.slice(0, 3)).toEqual([first?.id, first?.id, first?.id]);
    expect(first?.denials).toMatchObject([{ count: 1 }]);
    await flush();
    await flush();
    expect(records.map(({ denials }) => denials.map(({ count }) => count))).toEqual([[1], [1]]);
    expect(new Set(records.map(({ id }) => id)).size).toBe(2);
  });

  it('are logged as samples, by rule and route, with the subject as a hash', async () => {
    const { decide, flush, samples } = openTelemetry();
    for (let i = 0; i < 10; i += 1) decide({ decision: denied, caller: callerAt(`10.0.0.${i}`) });
    await flush();
    expect(samples).toHaveLength(3);
    for (const { rule, route, subject } of samples) {
      expect([rule, route]).toEqual(['search', 'default']);
      expect(subject).toMatch(/^h:[\w-]{22}$/);
    }
  });
});

describe('the sample of denied requests', () => {
  let lastId = 0;
  const refused = (method = 'GET', status = 429, code = 'rate-limited') => {
    lastId += 1;
    return { requestId: `id-${lastId}`, method, problem: { status, code } };
  };
  const sampled = (records: readonly RecordBatch[]) => records.flatMap(({ requests = [] }) => requests);

  it('has the numbers of each rule that denied one, and who called', async () => {
    const { decide, flush, records, samples } = openTelemetry();
    const decision = decisionOf({
      allowed: false,
      remaining: 2,
      rule: { cost: 5, resources: ['/login', '/in'] },
    });
    const caller = { ...callerAt('10.0.0.1'), tenantId: 'acme', apiKeyId: 'key' };
    const one = refused('POST');
    decide({ decision, caller, refused: one });
    await flush();
    expect(sampled(records)).toEqual([
      {
        ...{ requestId: one.requestId, atMs: START_MS, status: 429, code: 'rate-limited' },
        ...{ method: 'POST', route: 'default', region: 'us' },
        ...{ tenantId: 'acme', userId: '', apiKeyId: 'key' },
        rules: [
          {
            ...{ id: 'r', name: 'search', resource: '/login, /in', scope: 'ip', subject: '10.0.0.1' },
            ...{ limit: 10, windowSeconds: 60, cost: 5, remaining: 2, retryAfterMs: 0 },
          },
        ],
      },
    ]);
    expect(samples).toMatchObject([{ rule: 'search', request: one.requestId }]);
    expect(records.flatMap(({ denials }) => denials)[0]).not.toHaveProperty('requestId');
  });

  it('has requests that no rule denied, with the code of their answer', async () => {
    const { decide, flush, records } = openTelemetry();
    const decision = {
      kind: 'listed',
      allowed: false,
      list: 'deny',
      rulesVersion: 'v1',
      isStale: false,
    } as const;
    decide({ decision, refused: refused('GET', 403, 'denied') });
    await flush();
    expect(sampled(records)).toMatchObject([{ status: 403, code: 'denied', rules: [] }]);
  });

  it('has the first ones of each subject, and a bounded part of a flood', async () => {
    const { decide, flush, records } = openTelemetry();
    const of = (ip: string) => decide({ decision: denied, caller: callerAt(ip), refused: refused() });
    for (let i = 0; i < 500; i += 1) of('10.6.6.6');
    of('10.0.0.1');
    await flush();
    const subjects = sampled(records).map(({ rules }) => rules[0]?.subject);
    expect(subjects).toHaveLength(2 + MAX_OTHER_REQUESTS + 1);
    expect(subjects.filter((subject) => subject === '10.0.0.1')).toHaveLength(1);
    for (let i = 0; i < 500; i += 1) of(`10.1.1.${i}`);
    await flush();
    expect(sampled(records.slice(1))).toHaveLength(MAX_FIRST_REQUESTS + MAX_OTHER_REQUESTS);
  });

  it('is fair to the later requests of a flood: each is kept with the same probability', () => {
    const draws = [0.999, 0.5, 0.1, 0];
    const requests = createDeniedRequests(() => draws.shift() ?? 1);
    const add = (requestId: string) =>
      requests.add(Number.POSITIVE_INFINITY, () => ({ requestId }) as DeniedRequest);
    for (let i = 1; i <= MAX_OTHER_REQUESTS + 4; i += 1) add(`${i}`);
    // Places 8 of 9, 5 of 10, 1 of 11 and 0 of 12.
    expect(requests.take().map(({ requestId }) => requestId)).toEqual([
      '12',
      '11',
      '3',
      '4',
      '5',
      '10',
      '7',
      '8',
    ]);
    expect(requests.size).toBe(0);
  });

  it('takes bounded memory while it cannot be flushed', async () => {
    const { state, decide, flush, records } = openTelemetry();
    state.isQueueDown = true;
    for (let i = 0; i < 300; i += 1) {
      decide({ decision: denied, caller: callerAt(`10.0.0.${i}`), refused: refused() });
      if (i % 100 === 0) await flush();
    }
    state.isQueueDown = false;
    await flush();
    expect(sampled(records).length).toBeLessThanOrEqual(1 + MAX_FIRST_REQUESTS + MAX_OTHER_REQUESTS);
  });

  it('hashes addresses and users with SUBJECTS=hash', async () => {
    const { decide, flush, records } = openTelemetry({ isHashed: true });
    const caller = { ...callerAt('203.0.113.7'), userId: 'ann', tenantId: 'acme' };
    decide({ decision: denied, caller, refused: refused() });
    await flush();
    expect(JSON.stringify(sampled(records))).not.toMatch(/203\.0\.113\.7|"ann"/);
    const hash = expect.stringMatching(/^h:/);
    expect(sampled(records)).toMatchObject([{ userId: hash, tenantId: 'acme', rules: [{ subject: hash }] }]);
  });
});

describe('usage', () => {
  const caller = { ...callerAt('10.0.0.1'), userId: 'ann', apiKeyId: 'key', tenantId: 'acme' };
  const usedBy = (records: readonly RecordBatch[]) =>
    records.flatMap(({ usage }) => usage).map(({ ruleId, requests, cost }) => [ruleId, requests, cost]);

  it('has each admitted request and its cost, by hour, caller and rule', async () => {
    const { decide, flush, records } = openTelemetry();
    const decision = decisionOf({ rule: { cost: 5 } });
    for (let i = 0; i < 3; i += 1) decide({ decision, caller });
    decide({ decision: denied, caller });
    await flush();
    expect(usedBy(records)).toEqual([
      ['r', 3, 15],
      ['', 3, 15],
    ]);
    expect(records[0]?.usage[0]).toMatchObject({ tenantId: 'acme', userId: 'ann', apiKeyId: 'key' });
    expect((records[0]?.usage[0]?.atMs ?? 1) % 3_600_000).toBe(0);
  });

  it('is corrected to the real cost once the origin has named it', async () => {
    const { telemetry, state, decide, flush, records } = openTelemetry();
    const decision = decisionOf({ rule: { cost: 5, costFromOrigin: true } });
    decide({ decision, caller });
    const sent = { decision, caller, route: 'default', startedAtMs: state.nowMs, status: 200 };
    telemetry.answered({ ...sent, cost: 42 });
    await flush();
    expect(usedBy(records)).toEqual([
      ['r', 1, 42],
      ['', 1, 42],
    ]);
  });

  it('has no cost if the charge was refunded', async () => {
    const { telemetry, state, decide, flush, records } = openTelemetry();
    const decision = decisionOf({ rule: { cost: 5, refundOnError: true } });
    decide({ decision, caller });
    const sent = { decision, caller, route: 'default', startedAtMs: state.nowMs, status: 521 };
    telemetry.answered({ ...sent, isRefunded: true });
    await flush();
    expect(usedBy(records)).toEqual([
      ['r', 1, 0],
      ['', 1, 0],
    ]);
  });

  it('of callers beyond two thousand in an hour is summed up under “other”', async () => {
    const { decide, flush, records } = openTelemetry();
    for (let i = 0; i < MAX_NAMED + 500; i += 1)
      decide({ caller: { ...callerAt('10.0.0.1'), userId: `user ${i}` } });
    await flush();
    const rows = records.flatMap(({ usage }) => usage);
    const all = rows.filter(({ ruleId }) => ruleId === '');
    expect(all.reduce((sum, { requests }) => sum + requests, 0)).toBe(MAX_NAMED + 500);
    expect(all.find(({ userId }) => userId === 'other')?.requests).toBe(500);
  });

  it('takes bounded memory while it cannot be flushed, and totals stay exact with and without a rule', async () => {
    const { state, decide, flush, records } = openTelemetry();
    state.isQueueDown = true;
    const [hours, callers] = [5, MAX_NAMED + 500];
    for (let hour = 0; hour < hours; hour += 1) {
      for (let i = 0; i < callers; i += 1)
        decide({
          decision: decisionOf({ rule: { cost: 3 } }),
          caller: { ...caller, userId: `${hour} ${i}` },
        });
      await flush();
      state.nowMs += 60 * MINUTE_MS;
    }
    state.isQueueDown = false;
    await flush();
    const rows = records.flatMap(({ usage }) => usage);
    const totalOf = (isTotal: boolean) =>
      rows
        .filter(({ ruleId }) => (ruleId === '') === isTotal)
        .reduce((sum, { requests, cost }) => sum + requests + cost, 0);
    // Each request and its cost of three.
    expect(totalOf(true)).toBe(4 * hours * callers);
    expect(totalOf(false)).toBe(4 * hours * callers);
    // Those of the first hour, which were cut at once; then at most six thousand, and the rest.
    expect(rows.length).toBeLessThanOrEqual(2 * (MAX_NAMED + 1) + 6_002);
    expect(rows.some(({ ruleId }) => ruleId === 'other')).toBe(true);
  });
});

describe('SUBJECTS=hash', () => {
  const open = async (isHashed: boolean) => {
    const opened = openTelemetry({ isHashed });
    for (const scope of ['ip', 'user', 'apiKey'] as const)
      opened.decide({
        decision: decisionOf({ allowed: false, rule: { scope } }),
        caller: { ...callerAt('203.0.113.7'), userId: 'ann', apiKeyId: 'key-id' },
      });
    opened.decide({ caller: { ...callerAt('203.0.113.7'), userId: 'ann', tenantId: 'acme' } });
    await opened.flush();
    return JSON.stringify(opened.records);
  };

  it('keeps addresses and users out of the records, but not the ids of keys and tenants', async () => {
    const text = await open(true);
    expect(text).not.toMatch(/203\.0\.113\.7|"ann"/);
    expect(text).toMatch(/"subject":"h:[\w-]{22}"/);
    expect(text).toContain('key-id');
    expect(text).toContain('acme');
  });

  it('is not the default', async () => {
    expect(await open(false)).toMatch(/203\.0\.113\.7.*"ann"/);
  });
});
