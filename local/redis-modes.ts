// Puts a redis-server into a state in which it answers but refuses writes, and back. Its data stay.
import { Redis } from 'ioredis';
import { LOOPBACK } from './ports.ts';
import type { RedisServer } from './redis-server.ts';

type Command = readonly [name: string, ...args: string[]];

// Only root could listen there, so the replica never finds a master whose data would replace its own.
const DEAD_PORT = '1';

/** Redis refuses every write with OOM, and evicts nothing to make room. */
export const refuseMemory = (redis: RedisServer): Promise<void> =>
  tell(redis, ['CONFIG', 'SET', 'maxmemory', '1', 'maxmemory-policy', 'noeviction']);

/** Redis refuses every write with READONLY and answers reads, like a replica that has lost its master. */
export const makeReadOnlyReplica = (redis: RedisServer): Promise<void> =>
  tell(
    redis,
    ['CONFIG', 'SET', 'replica-read-only', 'yes', 'replica-serve-stale-data', 'yes'],
    ['REPLICAOF', LOOPBACK, DEAD_PORT],
  );

/** Does no harm if Redis takes writes already. */
export const takeWrites = (redis: RedisServer): Promise<void> =>
  tell(redis, ['REPLICAOF', 'NO', 'ONE'], ['CONFIG', 'SET', 'maxmemory', '0']);

/** Uses its own connection, because the REST API has no such commands. */
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
