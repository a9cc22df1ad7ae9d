// What Upstash would bill, counted by Redis itself: every command is one, and a script is one plus each command in it.
import type { RedisLink } from './redis-link.ts';

export interface GatewayStats {
  /** Commands that Upstash would bill, since Redis started. */
  billed: number;
  /** HTTP requests since the gateway started, except those to /_gateway. */
  requests: number;
}

// The local stack sends these, not its callers; or (MULTI, EXEC) no caller of the REST API writes them.
const NOT_BILLED = new Set([
  'info',
  'command',
  'config',
  'replicaof',
  'client',
  'hello',
  'auth',
  'select',
  'cluster',
  'asking',
  'replconf',
  'psync',
  'multi',
  'exec',
  'script|flush',
]);

/**
 * Commands since Redis started. An EVALSHA that ends in NOSCRIPT has run and counts, and so does a command that fails.
 * A command that Redis rejects before running it (unknown, wrong number of arguments) does not count.
 */
export async function countBilled(link: RedisLink): Promise<number> {
  const reply = await link.send(['INFO', 'commandstats']);
  if (reply instanceof Error) throw reply;
  return sumCalls(String(reply));
}

export function sumCalls(commandstats: string): number {
  let billed = 0;
  for (const [, name = '', calls] of commandstats.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)) {
    const [command = ''] = name.split('|');
    if (!NOT_BILLED.has(command) && !NOT_BILLED.has(name)) billed += Number(calls);
  }
  return billed;
}
