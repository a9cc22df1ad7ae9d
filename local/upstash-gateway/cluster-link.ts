// Connects the gateway to a Redis Cluster. Each command goes to the node that has its slot, and follows the slot when
// it moves. Upstash needs nothing like it; a deployment on a cluster has a REST proxy that does the same.
import { keyOf, slotOf } from './cluster-slot.ts';
import { connectRedis, type RedisCommand, RedisDownError, type RedisLink, type Reply } from './redis-link.ts';

const MAX_REDIRECTS = 5;

interface Node {
  /** Host and port, as the cluster names the node. */
  readonly name: string;
  readonly link: RedisLink;
}

export async function connectCluster(urls: readonly string[], label: string): Promise<RedisLink> {
  const nodes: Node[] = await Promise.all(
    urls.map(async (url) => ({ name: new URL(url).host, link: await connectRedis(url, label) })),
  );
  /** The node that had each slot, as far as known. */
  const known = new Map<number, Node>();

  /** Any node that answers knows where the slot is. */
  const learn = async (slot: number): Promise<Node> => {
    for (const { link } of nodes) {
      const ranges = await link.send(['CLUSTER', 'SLOTS']).catch(() => undefined);
      const node = Array.isArray(ranges) ? masterIn(ranges, slot, nodes) : undefined;
      if (node) return node;
    }
    throw new RedisDownError('no node of the cluster knows who has that slot');
  };

  const sendTo = async (slot: number, command: RedisCommand): Promise<Reply> => {
    let node = known.get(slot) ?? (await learn(slot));
    for (let redirects = 0; ; redirects += 1) {
      known.set(slot, node);
      const reply = await node.link.send(command).catch((error: unknown) => {
        // The next command asks again who has the slot. This one may have run, so it is not sent twice.
        known.delete(slot);
        throw error;
      });
      const [kind, , name] = reply instanceof Error ? reply.message.split(' ') : [];
      const next = nodes.find((one) => one.name === name);
      if (kind === 'CLUSTERDOWN') throw new RedisDownError('the cluster is down');
      if (!next || redirects === MAX_REDIRECTS || (kind !== 'MOVED' && kind !== 'ASK')) return reply;
      if (kind === 'ASK') return askOnce(next.link, command);
      node = next;
    }
  };

  const masters = async (): Promise<readonly Node[]> => {
    const roles = nodes.map(({ link }) => link.send(['INFO', 'replication']).catch(() => ''));
    const isMaster = (await Promise.all(roles)).map((role) => String(role).includes('role:master'));
    return nodes.filter((_, i) => isMaster[i]);
  };

  /**
   * A command without a key goes to all masters: a script is loaded everywhere, and counts of commands are added up.
   */
  const sendToAll = async (command: RedisCommand): Promise<Reply> => {
    const sent = await Promise.allSettled((await masters()).map(({ link }) => link.send(command)));
    const replies = sent.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    const [first] = replies;
    if (first === undefined) throw new RedisDownError('no node of the cluster answers');
    return command[0].toUpperCase() === 'INFO' ? Buffer.from(replies.map(String).join('\n')) : first;
  };

  const send = (command: RedisCommand): Promise<Reply> => {
    const key = keyOf(command);
    return key === undefined ? sendToAll(command) : sendTo(slotOf(key), command);
  };

  return {
    send,
    async transaction(commands) {
      const key = commands.map(keyOf).find((one) => one !== undefined) ?? '';
      const node = known.get(slotOf(key)) ?? (await learn(slotOf(key)));
      return node.link.transaction(commands);
    },
    close() {
      for (const { link } of nodes) link.close();
    },
  };
}

/** Sends both at once, because the permission (ASKING) covers only the next command of the connection. */
async function askOnce(link: RedisLink, command: RedisCommand): Promise<Reply> {
  const [, reply] = await Promise.all([link.send(['ASKING']), link.send(command)]);
  return reply;
}

function masterIn(ranges: readonly Reply[], slot: number, nodes: readonly Node[]): Node | undefined {
  for (const range of ranges) {
    const [from, to, master] = Array.isArray(range) ? range : [];
    const [host, port] = Array.isArray(master) ? master : [];
    if (slot >= Number(from) && slot <= Number(to))
      return nodes.find(({ name }) => name === `${String(host)}:${String(port)}`);
  }
  return undefined;
}
