// A real Redis Cluster of three masters on free ports, and a counter store on it.
import { Cluster, Redis } from 'ioredis';
import { freePort } from '../../local/ports.ts';
import { startRedisServer } from '../../local/redis-server.ts';
import type { CounterStore } from '../../src/core/ports/counter-store.ts';
import { parseAnswer, toScriptCall } from '../../src/redis/wire.ts';
import { stockScript } from '../redis/lua-counters.ts';

const SLOTS = 16_384;

export interface LocalCluster extends AsyncDisposable {
  readonly cluster: Cluster;
  readonly store: CounterStore;
}

export async function startCluster(): Promise<LocalCluster> {
  await using cleanup = new AsyncDisposableStack();
  const servers = await Promise.all([1, 2, 3].map((number) => startNode(number, cleanup)));
  const nodes = servers.map(({ port }) => new Redis(port));
  cleanup.defer(() => {
    for (const node of nodes) node.disconnect();
  });
  await Promise.all(nodes.map((node, i) => node.call('CLUSTER', 'ADDSLOTSRANGE', ...slotsOf(i))));
  for (const { port, busPort } of servers)
    await nodes[0]?.call('CLUSTER', 'MEET', '127.0.0.1', port, busPort);
  for (const node of nodes) await untilOk(node);

  const cluster = new Cluster(servers.map(({ port }) => ({ host: '127.0.0.1', port })));
  cleanup.defer(() => cluster.disconnect());
  cluster.defineCommand('counters', { lua: await stockScript() });
  const owned = cleanup.move();
  return { cluster, store: createStore(cluster), [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function startNode(number: number, cleanup: AsyncDisposableStack) {
  // The bus needs a port of its own; by default that is the port plus 10000, which may not exist.
  const busPort = await freePort();
  const extraArgs = ['--cluster-enabled', 'yes', '--cluster-port', String(busPort)];
  const server = await startRedisServer({ port: 0, name: `node ${number}`, extraArgs });
  cleanup.defer(() => server.stop());
  return { port: server.port, busPort };
}

function slotsOf(i: number): [number, number] {
  const share = Math.ceil(SLOTS / 3);
  return [i * share, Math.min(SLOTS, (i + 1) * share) - 1];
}

async function untilOk(node: Redis): Promise<void> {
  for (let tries = 0; tries < 400; tries += 1) {
    const info = String(await node.call('CLUSTER', 'INFO'));
    if (info.includes('cluster_state:ok') && info.includes('cluster_known_nodes:3')) return;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error('the cluster did not form');
}

function createStore(cluster: Cluster): CounterStore {
  const command = cluster as Cluster & { counters(count: number, ...rest: string[]): Promise<unknown> };
  return {
    async run(call) {
      const { keys, args } = toScriptCall(call);
      return parseAnswer(await command.counters(keys.length, ...keys, ...args), call.checks);
    },
    async reset(keys) {
      await cluster.unlink(...keys);
    },
    async probe() {},
  };
}
