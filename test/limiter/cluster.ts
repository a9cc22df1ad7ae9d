// A counter store on a real Redis Cluster of three masters and three replicas.
import { Cluster } from 'ioredis';
import { CLOCK } from '../../local/clocked-script.ts';
import { startRedisCluster } from '../../local/redis-cluster.ts';
import { type CounterStore, operationsBy } from '../../src/core/ports/region.ts';
import { parseAnswer, toScriptCall } from '../../src/redis/wire.ts';
import { stockScript } from '../redis/lua-counters.ts';

export interface LocalCluster extends AsyncDisposable {
  readonly cluster: Cluster;
  readonly store: CounterStore;
  /** The same store, by the clock that this function gives for the key of a call. */
  storeAt(clockOf: (key: string) => number): CounterStore;
}

export async function startCluster(): Promise<LocalCluster> {
  await using cleanup = new AsyncDisposableStack();
  const servers = await startRedisCluster('test');
  cleanup.defer(() => servers.stop());
  const cluster = new Cluster([...servers.urls]);
  cleanup.defer(() => cluster.disconnect());
  cluster.defineCommand('counters', { lua: await stockScript(CLOCK) });
  const owned = cleanup.move();
  return {
    cluster,
    store: createStore(cluster, () => ''),
    storeAt: (clockOf) => createStore(cluster, (key) => String(clockOf(key))),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function createStore(cluster: Cluster, clockOf: (key: string) => string): CounterStore {
  const command = cluster as Cluster & { counters(count: number, ...rest: string[]): Promise<unknown> };
  return {
    ...operationsBy(async (operation, call) => {
      const { keys, args } = toScriptCall(operation, call);
      const reply = await command.counters(keys.length, ...keys, ...args, clockOf(keys[0] ?? ''));
      return parseAnswer(operation, reply, call.checks);
    }),
    async reset(keys) {
      await cluster.unlink(...keys);
    },
    async probe() {},
  };
}
