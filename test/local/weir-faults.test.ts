// The faults of KV, of the Neon gateway and of a region, as the isolates of the built Worker see them.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openConnectionPool } from '../../local/connection-pool.ts';
import { regionFault } from '../../local/fault-catalogue.ts';
import type { Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';

let weir: Weir;
beforeAll(async () => {
  weir = await startWeir();
  await weir.admin('/rules', {
    method: 'POST',
    body: { resource: '/x', scope: 'ip', algorithm: 'fixed-window', limit: 5, windowSeconds: 3600 },
  });
});
afterAll(() => weir?.[Symbol.asyncDispose]());

const seen = async (call?: Parameters<Weir['call']>[1]) => {
  const { status, headers } = await weir.call('/x', call);
  return [status, headers.get('X-RateLimit-Limit'), headers.get('X-Weir-Degraded')];
};

describe.sequential('the KV of all isolates', () => {
  // This isolate has never read any rules, and keeps none that it could not read.
  const isolate = 'two';
  // Removes the copies in Redis, which are the second source.
  beforeAll(async () => {
    for (const { redis } of weir.stack.regions) {
      const client = new Redis(redis.url);
      await client.unlink(await client.keys('weir:{published}:*')).finally(() => client.disconnect());
    }
  });

  it.each(['throw', 'hang', 'null', 'garbage'] as const)('can fail at reads: %s', async (read) => {
    await weir.isolates.kvFaults.set({ read });
    expect(await seen({ isolate })).toEqual([200, null, 'no-rules']);
    expect(await (await weir.isolates.kv()).get('current')).toEqual(expect.any(String));
  });

  it('can fail at writes: throw', async () => {
    await weir.isolates.kvFaults.set({ write: 'throw' });
    await expect(weir.admin('/publish', { method: 'POST' })).rejects.toThrow('"publish-failed"');
  });

  it('works again when the faults are cleared', async () => {
    await weir.isolates.kvFaults.clear();
    await expect.poll(() => seen({ isolate })).toEqual([200, '5', null]);
    await weir.admin('/publish', { method: 'POST' });
  });
});

describe('the Neon gateway', () => {
  it('fails on demand, while Postgres itself goes on', async () => {
    await weir.stack.neon.faults.set({ status: 500 });
    await expect(weir.admin('/rules')).rejects.toThrow('"database-unavailable"');
    await weir.sql('select 1');
    await weir.stack.neon.faults.clear();
    expect(await weir.admin('/rules')).toHaveProperty('items');
  });
});

describe('a region', () => {
  const ping = async (name: string) => {
    using pool = openConnectionPool();
    const { url, token } = weir.region(name).gateway;
    return await pool.request(`${url}/ping?_token=${token}`).then(
      ({ status }) => status,
      (error: NodeJS.ErrnoException) => error.code,
    );
  };

  it('has a fault of the catalogue for as long as asked, and no other region has it', async () => {
    const killed = regionFault('redis-killed', { slowMs: 100 });
    await weir.withRegionFault('ap', killed, async () => {
      expect([await ping('ap'), await ping('eu')]).toEqual([503, 200]);
    });
    expect(await ping('ap')).toBe(200);
  });

  it('is healthy again even if the code that ran during the fault throws', async () => {
    const killed = regionFault('redis-killed', { slowMs: 100 });
    const failing = weir.withRegionFault('ap', killed, async () => {
      throw new Error('an assertion');
    });
    await expect(failing).rejects.toThrow('an assertion');
    expect(await ping('ap')).toBe(200);
  });

  it('has its port closed for as long as asked', async () => {
    await weir.withFault('eu', { refuse: true }, async () => {
      expect(await ping('eu')).toBe('ECONNREFUSED');
    });
    expect(await ping('eu')).toBe(200);
  });

  it('that does not exist is named in the error', () => {
    expect(() => weir.region('mars')).toThrow('there is no region mars');
  });
});
