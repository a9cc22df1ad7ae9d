// Checks commands of the REST API: JSON values become arguments, and commands that make no sense over REST are refused.
import type { Argument, RedisCommand } from './redis-link.ts';

/** The request itself is wrong. The answer is 400 with this message. */
export class BadRequestError extends Error {}

// These subscribe, block, or change the connection or the server that all requests share.
const REFUSED = new Set(
  `SUBSCRIBE PSUBSCRIBE SSUBSCRIBE UNSUBSCRIBE PUNSUBSCRIBE SUNSUBSCRIBE MONITOR
   BLPOP BRPOP BRPOPLPUSH BLMOVE BLMPOP BZPOPMIN BZPOPMAX BZMPOP WAIT WAITAOF
   MULTI EXEC DISCARD WATCH UNWATCH AUTH HELLO RESET QUIT SELECT SWAPDB MOVE CLIENT READONLY READWRITE ASKING
   CONFIG DEBUG SHUTDOWN SAVE BGSAVE BGREWRITEAOF MODULE ACL CLUSTER MIGRATE
   REPLICAOF SLAVEOF FAILOVER SYNC PSYNC REPLCONF PFDEBUG PFSELFTEST`.split(/\s+/),
);

export function parseCommandList(body: Buffer): RedisCommand[] {
  const rows = parseJson(body);
  if (!Array.isArray(rows)) throw new BadRequestError('ERR failed to parse: expected an array of commands');
  if (rows.length === 0) throw new BadRequestError('ERR empty pipeline request');
  return rows.map(toCommand);
}

export function parseCommand(body: Buffer): RedisCommand {
  return toCommand(parseJson(body));
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    throw new BadRequestError('ERR failed to parse: the body is not JSON');
  }
}

function toCommand(value: unknown): RedisCommand {
  if (!Array.isArray(value)) throw new BadRequestError('ERR failed to parse: a command must be a JSON array');
  const [name, ...args] = value;
  return createCommand(name, args.map(toArgument));
}

export function createCommand(name: unknown, args: readonly Argument[]): RedisCommand {
  if (name === undefined || name === '') throw new BadRequestError('ERR empty command');
  if (typeof name !== 'string') throw new BadRequestError('ERR the name of a command must be a string');
  return [name, ...args];
}

function toArgument(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The error for a command that must not reach the shared connection. */
export function refusal([name, ...args]: RedisCommand): Error | undefined {
  const upper = name.toUpperCase();
  const word = (index: number) => String(args[index] ?? '').toUpperCase();
  const blocks = upper === 'XREAD' || upper === 'XREADGROUP' ? isBlocking(args) : false;
  const debugs = upper === 'SCRIPT' && word(0) === 'DEBUG';
  if (!REFUSED.has(upper) && !blocks && !debugs) return undefined;
  const spelled = blocks ? `${upper} BLOCK` : debugs ? 'SCRIPT DEBUG' : upper;
  return new Error(`ERR Command is not available: '${spelled}'`);
}

/** BLOCK is an option only before STREAMS. After it, BLOCK is the name of a stream. */
function isBlocking(args: readonly Argument[]): boolean {
  const words = args.map((arg) => String(arg).toUpperCase());
  const options = words.slice(0, words.indexOf('STREAMS'));
  return options.includes('BLOCK');
}
