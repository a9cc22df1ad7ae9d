// A real Redis Cluster on this machine: three masters with a third of the slots each, and one replica of each master.
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { freePort, LOOPBACK, StackError } from './ports.ts';
import { type RedisServer, startRedisServer } from './redis-server.ts';

const MASTERS = 3;
const SLOTS = 16_384;
/** After this time without an answer, the replica replaces a master. */
const NODE_TIMEOUT_MS = 1_000;
const FORM_MS = 60_000;

export interface RedisCluster {
  /** The URLs of all nodes, masters first. The replica of a master is three places after it. */
  readonly urls: readonly string[];
  /** Kills the master of that slot. Resolves to its place among the nodes. */
  killMasterOf(slot: number): Promise<number>;
  /** Whether a running node is master of that slot. */
  hasMaster(slot: number): Promise<boolean>;
  stop(): Promise<void>;
}

interface Node {
  readonly server: RedisServer;
  readonly client: Redis;
  readonly busPort: number;
}

export async function startRedisCluster(name: string): Promise<RedisCluster> {
  await using cleanup = new AsyncDisposableStack();
  const nodes: Node[] = [];
  for (let i = 0; i < 2 * MASTERS; i += 1) nodes.push(await startNode(`${name} node ${i + 1}`, cleanup));
  await formCluster(nodes);
  const owned = cleanup.move();
  const masterOf = async (slot: number): Promise<Node | undefined> => {
    for (const node of nodes.filter(({ server }) => server.isRunning()))
      if (await isMasterOf(node, slot)) return node;
    return undefined;
  };
  return {
    urls: nodes.map(({ server }) => server.url),
    async killMasterOf(slot) {
      const node = await masterOf(slot);
      if (!node) throw new StackError(`no node is master of slot ${slot}`);
      await node.server.kill();
      return nodes.indexOf(node);
    },
    hasMaster: async (slot) => (await masterOf(slot)) !== undefined,
    stop: () => owned.disposeAsync(),
  };
}

async function startNode(name: string, cleanup: AsyncDisposableStack): Promise<Node> {
  // The cluster bus needs its own port. The default is the port plus 10000, which may not exist.
  const busPort = await freePort();
  // Nodes notice during their chores that another node is gone.
  const cluster = ['--cluster-enabled', 'yes', '--cluster-port', String(busPort), '--hz', '10'];
  const failover = [
    '--cluster-node-timeout',
    String(NODE_TIMEOUT_MS),
    '--cluster-replica-validity-factor',
    '0',
  ];
  const extraArgs = [...cluster, ...failover, '--repl-diskless-sync-delay', '0'];
  const server = await startRedisServer({ port: 0, name, extraArgs });
  cleanup.defer(() => server.stop());
  const client = new Redis(server.url, { maxRetriesPerRequest: 0, retryStrategy: () => 100 });
  client.on('error', () => {});
  cleanup.defer(() => client.disconnect());
  return { server, client, busPort };
}

async function formCluster(nodes: readonly Node[]): Promise<void> {
  const [first] = nodes;
  const masters = nodes.slice(0, MASTERS);
  for (const [i, { client }] of masters.entries())
    await client.call('CLUSTER', 'ADDSLOTSRANGE', ...slotsOf(i).map(String));
  for (const { server, busPort } of nodes.slice(1))
    await first?.client.call('CLUSTER', 'MEET', LOOPBACK, server.port, busPort);
  await until(async () => (await Promise.all(nodes.map(knowsAll))).every(Boolean));
  for (const [i, replica] of nodes.slice(MASTERS).entries()) {
    const id = String(await masters[i]?.client.call('CLUSTER', 'MYID'));
    await replica.client.call('CLUSTER', 'REPLICATE', id);
  }
  await until(async () => (await Promise.all(nodes.slice(MASTERS).map(isInSync))).every(Boolean));
  await until(async () => (await Promise.all(nodes.map(isOk))).every(Boolean));
}

function slotsOf(i: number): [number, number] {
  const share = Math.ceil(SLOTS / MASTERS);
  return [i * share, Math.min(SLOTS, (i + 1) * share) - 1];
}

const infoOf = async ({ client }: Node): Promise<string> => String(await client.call('CLUSTER', 'INFO'));
const knowsAll = async (node: Node) => (await infoOf(node)).includes(`cluster_known_nodes:${2 * MASTERS}`);
const isOk = async (node: Node) => (await infoOf(node)).includes('cluster_state:ok');
const isInSync = async ({ client }: Node) =>
  String(await client.info('replication')).includes('master_link_status:up');

/** Asks the node itself. */
async function isMasterOf({ client }: Node, slot: number): Promise<boolean> {
  const nodes = String(await client.call('CLUSTER', 'NODES').catch(() => ''));
  const own = nodes.split('\n').find((line) => line.includes('myself'));
  const [, , flags = '', , , , , , ...ranges] = own?.split(' ') ?? [];
  if (!flags.includes('master')) return false;
  return ranges.some((range) => {
    const [from = Number.NaN, to = from] = range.split('-').map(Number);
    return slot >= from && slot <= to;
  });
}

async function until(isDone: () => Promise<boolean>): Promise<void> {
  const endsAtMs = Date.now() + FORM_MS;
  while (!(await isDone())) {
    if (Date.now() > endsAtMs) throw new StackError('the Redis Cluster did not form');
    await sleep(25);
  }
}
