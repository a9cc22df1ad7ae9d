// Denials and usage on their whole way: three isolates in workerd, a queue, its consumer, Postgres, the admin route.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshIp, type Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';

interface Page<T> {
  readonly items: T[];
}
type Violator = { subject: string; count: number; rules: string[] };

describe.each([
  ['through a queue', 'weir-records'],
  ['without a queue, straight to Postgres', undefined],
])('%s', (_, queue) => {
  let weir: Weir;
  beforeAll(async () => {
    weir = await startWeir({ TELEMETRY_SECONDS: '0.1' }, queue === undefined ? {} : { queue });
    const rule = { name: 'two', resource: '/two', scope: 'ip', algorithm: 'fixed-window', cost: 3 };
    await weir.admin('/rules', { method: 'POST', body: { ...rule, limit: 6, windowSeconds: 3_600 } });
  });
  afterAll(() => weir[Symbol.asyncDispose]());

  const violators = async () => (await weir.admin<Page<Violator>>('/violators?since=1h&by=ip')).items;
  const countOf = async (ip: string) => (await violators()).find(({ subject }) => subject === ip)?.count ?? 0;
  const sendAll = async (ip: string, count: number) => {
    for (let i = 0; i < count; i += 1)
      await (await weir.call('/two', { ip, isolate: i % 2 === 0 ? 'one' : 'two' })).body?.cancel();
  };

  it('all denials of a caller arrive, whichever isolate denied them, and none twice', async () => {
    const ip = freshIp();
    await sendAll(ip, 2 + 11);
    await expect.poll(() => countOf(ip)).toBe(11);
    await sendAll(ip, 4);
    await expect.poll(() => countOf(ip)).toBe(15);
    const [violator] = (await violators()).filter(({ subject }) => subject === ip);
    expect(violator?.rules).toEqual(['two']);
  });

  it('usage has the admitted requests and what they cost', async () => {
    const used = async () =>
      (await weir.admin<Page<{ requests: number; cost: number }>>('/usage?by=tenant')).items[0];
    await expect.poll(used).toBeDefined();
    const before = await used();
    await sendAll(freshIp(), 2 + 3);
    await expect.poll(async () => (await used())?.requests).toBe((before?.requests ?? 0) + 2);
    expect((await used())?.cost).toBe((before?.cost ?? 0) + 6);
  });

  it('while Postgres is gone nothing is lost: it arrives when Postgres is back', async () => {
    const ip = freshIp();
    await sendAll(ip, 2);
    const before = weir.stack.neon.failedCount();
    await weir.stack.neon.faults.set({ status: 503 });
    await sendAll(ip, 5);
    // Both isolates have handed over, in vain.
    await expect.poll(() => weir.stack.neon.failedCount()).toBeGreaterThanOrEqual(before + 2);
    await weir.stack.neon.faults.clear();
    // An isolate tries again with its next request.
    await sendAll(ip, 2);
    await expect.poll(() => countOf(ip)).toBe(7);
  });
});
