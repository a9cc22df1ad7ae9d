// The gateway's one connection to Redis: raw replies, errors as values, and quick failures while Redis is down.
import { Command, Redis } from 'ioredis';
import { StackError } from '../ports.ts';

export type Argument = string | Buffer;
export type RedisCommand = readonly [name: string, ...args: Argument[]];

/** A string is the digits of an integer, which may exceed a JavaScript number. Text is a Buffer. */
export type Reply = Buffer | string | null | Error | Reply[];

/** Redis was down, or went down before it answered. The command may have run. */
export class RedisDownError extends Error {}

export interface RedisLink {
  /** Resolves to an Error if Redis answers with one. Rejects only with RedisDownError. */
  send(command: RedisCommand): Promise<Reply>;
  /** All or nothing: an Error means that Redis refused to queue one of the commands and ran none. */
  transaction(commands: readonly RedisCommand[]): Promise<Reply[] | Error>;
  close(): void;
}

const RECONNECT_MS = 25;

export async function connectRedis(url: string, label: string): Promise<RedisLink> {
  const redis = new Redis(url, {
    lazyConnect: true,
    // A command is sent at once or fails at once. It is never sent twice, because a retry could charge twice.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    retryStrategy: () => RECONNECT_MS,
    disconnectTimeout: 100,
    // Both would send commands of their own, and the billing counter would have to leave them out.
    enableReadyCheck: false,
    disableClientInfo: true,
    stringNumbers: true,
  });
  redis.on('error', () => {});
  try {
    await redis.connect();
  } catch {
    redis.disconnect();
    throw new StackError(`${label}: no Redis answers at ${url}`);
  }
  const send = (command: RedisCommand) => sendRaw(redis, command);
  return { send, transaction: (commands) => transact(send, commands), close: () => redis.disconnect() };
}

function sendRaw(redis: Redis, [name, ...args]: RedisCommand): Promise<Reply> {
  // In upper case, the name misses ioredis's reply transformers, one of which would turn HGETALL into an object.
  const command = new Command(name.toUpperCase(), args);
  const sent = redis.sendCommand(command) as Promise<Reply>;
  return sent.catch((error: unknown) => {
    if (error instanceof Error && error.name === 'ReplyError') return error;
    throw new RedisDownError('Redis is not reachable', { cause: error });
  });
}

async function transact(
  send: RedisLink['send'],
  commands: readonly RedisCommand[],
): Promise<Reply[] | Error> {
  // Sends all without an await in between, so that no other request's command can slip in.
  const [, ...replies] = await Promise.all([send(['MULTI']), ...commands.map(send), send(['EXEC'])]);
  const executed = replies.pop();
  if (Array.isArray(executed)) return executed;
  const refusal = replies.find((reply) => reply instanceof Error);
  return (
    refusal ?? (executed instanceof Error ? executed : new Error('ERR the transaction was not executed'))
  );
}
