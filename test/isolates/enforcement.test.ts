// The switch that makes rules only log: through the admin route, and by a variable.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshIp, type IsolateName, type Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';

const ISOLATES: readonly IsolateName[] = ['one', 'two', 'three'];
const RULES = [
  { resource: '/few', scope: 'ip', algorithm: 'fixed-window', limit: 1, windowSeconds: 86_400 },
  {
    resource: '/queue',
    scope: 'ip',
    algorithm: 'leaky-bucket',
    action: 'throttle',
    limit: 1,
    windowSeconds: 60,
    maxDelayMs: 30_000,
  },
];

let weir: Weir;
beforeAll(async () => {
  weir = await startWeir();
  for (const rule of RULES) await weir.admin('/rules', { method: 'POST', body: rule });
});
afterAll(() => weir?.[Symbol.asyncDispose]());

const statusOf = async (path: string, ip: string, isolate: IsolateName = 'one') => {
  const answer = await weir.call(path, { ip, isolate });
  await answer.body?.cancel();
  return answer.status;
};
const turn = (enforcement: 'on' | 'log') =>
  weir.admin<{ enforcement: string; revision: number }>('/settings', {
    method: 'PATCH',
    body: { enforcement },
  });

/** An address whose limit is used up, and every isolate knows it. */
async function usedUp(): Promise<string> {
  const ip = freshIp();
  await expect.poll(() => statusOf('/few', ip)).toBe(429);
  for (const isolate of ISOLATES) await expect.poll(() => statusOf('/few', ip, isolate)).toBe(429);
  return ip;
}

describe('the enforcement switch of the admin route', () => {
  it('lets every request pass in every isolate, even known denials, and denies again afterwards', async () => {
    const ip = await usedUp();
    expect(await turn('log')).toMatchObject({ enforcement: 'log' });
    for (const isolate of ISOLATES) await expect.poll(() => statusOf('/few', ip, isolate)).toBe(200);
    await turn('on');
    for (const isolate of ISOLATES) await expect.poll(() => statusOf('/few', ip, isolate)).toBe(429);
  });

  it('keeps no request waiting for its turn', async () => {
    await turn('log');
    await expect.poll(async () => (await enforcementOf('one')).mode).toBe('log');
    const ip = freshIp();
    const answers = await Promise.all([1, 2, 3].map(() => statusOf('/queue', ip)));
    expect(answers).toEqual([200, 200, 200]);
    await turn('on');
  });

  it('is shown by explain and health', async () => {
    const body = { path: '/few', ip: freshIp() };
    await turn('log');
    expect(await weir.admin('/explain', { method: 'POST', body })).toMatchObject({ enforcement: 'log' });
    await expect.poll(() => enforcementOf('two')).toEqual({ mode: 'log', by: 'settings' });
    await turn('on');
    expect(await weir.admin('/explain', { method: 'POST', body })).toMatchObject({ enforcement: 'on' });
  });

  it('is in the history, and can be rolled back', async () => {
    await turn('log');
    const { items } = await weir.admin<{ items: { changeId: number }[] }>('/history?entity=settings&limit=1');
    expect(items).toMatchObject([
      { entity: 'settings', before: { enforcement: 'on' }, after: { enforcement: 'log' }, actor: 'admin' },
    ]);
    await weir.admin(`/history/${items[0]?.changeId}/rollback`, { method: 'POST' });
    expect(await weir.admin('/settings')).toMatchObject({ enforcement: 'on' });
  });

  it('is not changed by an editor who has seen an older state', async () => {
    const { revision } = await turn('on');
    await turn('log');
    await turn('on');
    const stale = { 'If-Match': `"${revision}"` };
    const change = { method: 'PATCH', headers: stale, body: { enforcement: 'log' } };
    await expect(weir.admin('/settings', change)).rejects.toThrow(/412/);
    expect(await weir.admin('/settings')).toMatchObject({ enforcement: 'on' });
  });
});

/** The switch in the rules of the isolate. A request makes it look for newer rules. */
async function enforcementOf(isolate: IsolateName) {
  await statusOf('/few', freshIp(), isolate);
  return (await weir.health<{ enforcement: { mode: string; by: string } }>(isolate)).enforcement;
}

it('the variable ENFORCEMENT overrides the setting, and needs neither Postgres nor rules', async () => {
  const variables = { ENFORCEMENT: 'log', ISOLATE_CAP: '1' };
  await using other = await startWeir(variables, { isolates: ['one', 'two'] });
  const byVariable = { enforcement: { mode: 'log', by: 'ENFORCEMENT' } };
  const countOf = async (isolate: IsolateName) =>
    (await other.health<{ rules: { count: number } }>(isolate)).rules.count;
  const statuses = async (isolate: IsolateName) => {
    const ip = freshIp();
    const sent = [1, 2, 3].map(async () => (await other.call('/few', { ip, isolate })).status);
    return Promise.all(sent);
  };
  expect(await other.health('one')).toMatchObject({ ...byVariable, rules: { version: null } });
  // Without rules the isolate would otherwise let one request a second through.
  expect(await statuses('one')).toEqual([200, 200, 200]);

  await other.admin('/rules', { method: 'POST', body: RULES[0] });
  await other.sql(`update weir.settings set enforcement = 'on'`);
  await other.admin('/publish', { method: 'POST' });
  await expect.poll(() => other.call('/few').then(() => countOf('one'))).toBe(1);
  expect(await statuses('one')).toEqual([200, 200, 200]);
  expect(await other.health('one')).toMatchObject(byVariable);

  await other.stack.stopPostgres();
  // This isolate starts only now.
  expect(await statuses('two')).toEqual([200, 200, 200]);
  expect(await other.health('two')).toMatchObject({
    ...byVariable,
    rules: { count: 1 },
    parts: { postgres: 'down' },
  });
});
