// States of a redis-server in which it answers but does not take writes, and the way back. Its data stay.
import { Redis } from 'ioredis';
import { LOOPBACK } from './ports.ts';
import type { RedisServer } from './redis-server.ts';

type Command = readonly [name: string, ...args: string[]];

// Nobody but root could listen there, so that no master is ever found, whose data would replace those at hand.
const DEAD_PORT = '1';

/** Every write is refused with OOM, and nothing is evicted to make room. */
export const refuseMemory = (redis: RedisServer): Promise<void> =>
  tell(redis, ['CONFIG', 'SET', 'maxmemory', '1', 'maxmemory-policy', 'noeviction']);

/** Every write is refused with READONLY; reads are answered, as by a replica that has lost its master. */
export const makeReadOnlyReplica = (redis: RedisServer): Promise<void> =>
  tell(
    redis,
    ['CONFIG', 'SET', 'replica-read-only', 'yes', 'replica-serve-stale-data', 'yes'],
    ['REPLICAOF', LOOPBACK, DEAD_PORT],
  );

/** Harmless if it takes writes already. */
export const takeWrites = (redis: RedisServer): Promise<void> =>
  tell(redis, ['REPLICAOF', 'NO', 'ONE'], ['CONFIG', 'SET', 'maxmemory', '0']);

/** By a connection of its own: the REST API has no such commands. */
async function tell(redis: RedisServer, ...commands: readonly Command[]): Promise<void> {
  const client = new Redis(redis.url, {
    lazyConnect: true,
    enableReadyCheck: false,
    disableClientInfo: true,
    retryStrategy: () => null,
  });
  client.on('error', () => {});
  try {
    await client.connect();
    for (const [name, ...args] of commands) await client.call(name, ...args);
  } finally {
    client.disconnect();
  }
}
