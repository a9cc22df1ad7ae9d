// The gateway in front of a Redis Cluster: each command finds the node that has its slot.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RedisCluster, startRedisCluster } from '../../local/redis-cluster.ts';
import { keyOf, slotOf } from '../../local/upstash-gateway/cluster-slot.ts';
import { startUpstashGateway, type UpstashGateway } from '../../local/upstash-gateway/server.ts';

describe('the slot of a key', () => {
  it('is the CRC16 of its hash tag, or of the whole key', () => {
    expect([slotOf('123456789'), slotOf('a{123456789}b')]).toEqual([0x31c3, 0x31c3]);
    expect(slotOf('{}a')).not.toBe(slotOf('{}b'));
  });

  it.each([
    [['GET', 'k'], 'k'],
    [['EVALSHA', 'sha', '2', 'a', 'b'], 'a'],
    [['EVAL', 'return 1', '0'], undefined],
    [['INFO', 'commandstats'], undefined],
  ] as const)('for the command %j is the slot of its key %s', ([name, ...args], key) => {
    expect(keyOf([name, ...args])).toBe(key);
  });
});

describe('the gateway in front of a cluster', () => {
  let cluster: RedisCluster;
  let gateway: UpstashGateway;
  beforeAll(async () => {
    cluster = await startRedisCluster('test');
    const behind = { redisUrl: '', clusterUrls: cluster.urls };
    gateway = await startUpstashGateway({ port: 0, token: 'token', name: 'test', ...behind });
  });
  afterAll(async () => {
    await gateway?.stop();
    await cluster?.stop();
  });

  const ask = async (path: string, body: unknown): Promise<unknown> => {
    const headers = { Authorization: 'Bearer token' };
    return (await fetch(gateway.url + path, { method: 'POST', headers, body: JSON.stringify(body) })).json();
  };
  const keys = Array.from({ length: 20 }, (_, i) => `key-${i}`);

  it('answers a pipeline whose keys are in slots of all nodes', async () => {
    await ask(
      '/pipeline',
      keys.map((key) => ['SET', key, `of ${key}`]),
    );
    const answers = await ask(
      '/pipeline',
      keys.map((key) => ['GET', key]),
    );
    expect(answers).toEqual(keys.map((key) => ({ result: `of ${key}` })));
  });

  it('runs a script on the node that has its keys', async () => {
    const script = "return redis.call('GET', KEYS[1])";
    expect(await ask('/', ['EVAL', script, '1', 'key-7'])).toEqual({ result: 'of key-7' });
  });

  it('bills each command once, and does not bill replication', async () => {
    const { billed } = await gateway.stats();
    await ask(
      '/pipeline',
      keys.map((key) => ['SET', key, 'again']),
    );
    expect((await gateway.stats()).billed - billed).toBe(keys.length);
  });
});
