// Denials and usage from end to end: three isolates in workerd, a queue, its consumer, Postgres, the admin route.
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { startIsolates } from '../../local/isolates.ts';
import { freshIp, type IsolateName, type Weir } from '../../local/weir.ts';
import { createSharedParts } from '../shared/parts.ts';
import { startWeir } from '../shared/weir.ts';

interface Page<T> {
  readonly items: T[];
}
type Violator = { subject: string; count: number; rules: { name: string }[] };

describe.each([
  ['through a queue', 'weir-records'],
  ['without a queue, straight to Postgres', undefined],
])('%s', (_, queue) => {
  let weir: Weir;
  beforeAll(async () => {
    // One retry, after a second. With the ten of wrangler.toml, it takes hours to give a batch up.
    weir = await startWeir(
      { TELEMETRY_SECONDS: '0.1' },
      queue === undefined ? {} : { queue, queueRetries: 1 },
    );
    const rule = { name: 'two', resource: '/two', scope: 'ip', algorithm: 'fixed-window', cost: 3 };
    await weir.admin('/rules', { method: 'POST', body: { ...rule, limit: 6, windowSeconds: 3_600 } });
  });
  afterAll(() => weir[Symbol.asyncDispose]());

  const limitAt = async (isolate: IsolateName) => {
    const answer = await weir.call('/two', { isolate });
    await answer.body?.cancel();
    return answer.headers.get('X-RateLimit-Limit');
  };
  const violators = async () => (await weir.admin<Page<Violator>>('/violators?since=1h&groupBy=ip')).items;
  const countOf = async (ip: string) => (await violators()).find(({ subject }) => subject === ip)?.count ?? 0;
  const sendAll = async (ip: string, count: number) => {
    for (let i = 0; i < count; i += 1)
      await (await weir.call('/two', { ip, isolate: i % 2 === 0 ? 'one' : 'two' })).body?.cancel();
  };

  /** From the metrics of all isolates. NaN if there are none. */
  const deadLetters = async () => {
    const headers = { Authorization: `Bearer ${weir.token}` };
    const text = await (await weir.call('/_weir/metrics', { headers })).text();
    return Number(/^weir_dead_letters_total\{store="us"\} (\d+)$/m.exec(text)?.[1] ?? Number.NaN);
  };

  // On a busy machine, an isolate that starts lets its first requests pass without rules.
  it.each(['one', 'two'] as const)('the rule is in force in isolate %s', async (isolate) => {
    await expect.poll(() => limitAt(isolate)).toBe('6');
  });

  it('all denials of a caller arrive from every isolate, and none twice', async () => {
    const ip = freshIp();
    await sendAll(ip, 2 + 11);
    await expect.poll(() => countOf(ip)).toBe(11);
    await sendAll(ip, 4);
    await expect.poll(() => countOf(ip)).toBe(15);
    const [violator] = (await violators()).filter(({ subject }) => subject === ip);
    expect(violator?.rules.map(({ name }) => name)).toEqual(['two']);
  });

  it('usage has the admitted requests and what they cost', async () => {
    const used = async () =>
      (await weir.admin<Page<{ requests: number; cost: number }>>('/usage?groupBy=tenant')).items[0];
    await expect.poll(used).toBeDefined();
    const before = await used();
    await sendAll(freshIp(), 2 + 3);
    await expect.poll(async () => (await used())?.requests).toBe((before?.requests ?? 0) + 2);
    expect((await used())?.cost).toBe((before?.cost ?? 0) + 6);
  });

  it('no denial is lost while Postgres is down: all arrive when Postgres is back', async () => {
    const ip = freshIp();
    await sendAll(ip, 2);
    const before = weir.stack.neon.failedCount();
    await weir.stack.neon.faults.set({ status: 503 });
    await sendAll(ip, 5);
    // Both isolates have tried to flush, in vain.
    await expect.poll(() => weir.stack.neon.failedCount()).toBeGreaterThanOrEqual(before + 2);
    await weir.stack.neon.faults.clear();
    // An isolate tries again with its next request.
    await sendAll(ip, 2);
    await expect.poll(() => countOf(ip)).toBe(7);
  });

  // Without a queue there is no consumer.
  if (queue) {
    it('a batch that fails too often is counted as a dead letter, and arrives when Postgres is back', async () => {
      const ip = freshIp();
      const before = await deadLetters();
      // If the counter did not exist yet, the alert would not see its first increase.
      expect(before).toBeGreaterThanOrEqual(0);
      await sendAll(ip, 2);
      await weir.stack.neon.faults.set({ status: 503 });
      await sendAll(ip, 5);
      await expect.poll(deadLetters).toBeGreaterThan(before);
      await weir.stack.neon.faults.clear();
      await expect.poll(() => countOf(ip)).toBe(5);
    });

    it('a consumer whose process is killed in the middle of a batch counts nothing twice', async () => {
      const [a, b] = [freshIp(), freshIp()];
      const messages = [batchOf(a), batchOf(b)];
      await using stuck = await holdBatch(weir.stack.databaseUrl, messages[1]?.id ?? '');
      const victim = await startVictim(weir);
      const delivered = victim.deliver('victim', 'weir-records', messages).catch(() => 'killed');
      await expect.poll(() => countOf(a)).toBe(3);
      await victim[Symbol.asyncDispose]();
      expect(await delivered).toBe('killed');
      expect(await countOf(b)).toBe(0);
      await stuck.release();
      await weir.isolates.deliver('one', 'weir-records', messages);
      expect([await countOf(a), await countOf(b)]).toEqual([3, 3]);
    });
  }
});

/** Three denials of one caller, just now. */
function batchOf(subject: string) {
  const atMs = Math.floor(Date.now() / 60_000) * 60_000;
  const denial = { atMs, ruleId: 'r', ruleName: 'two', scope: 'ip', subject, count: 3 };
  return { id: crypto.randomUUID(), cutAtMs: Date.now(), denials: [denial], usage: [] };
}

/** An isolate in its own workerd. Ending these isolates kills it (SIGKILL). */
async function startVictim({ stack, token }: Weir) {
  const bundle = await createSharedParts(inject('sharedParts')).worker();
  return startIsolates({ names: ['victim'], bundle, variables: { ...stack.variables, ADMIN_TOKEN: token } });
}

/** A writer of the batch with this id waits, because another transaction has not ended yet. */
async function holdBatch(databaseUrl: string, id: string) {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query('begin');
  await client.query('insert into weir.record_batches (id) values ($1)', [id]);
  let isHeld = true;
  const release = async () => {
    if (isHeld) await client.query('rollback').finally(() => client.end());
    isHeld = false;
  };
  return { release, [Symbol.asyncDispose]: release };
}
