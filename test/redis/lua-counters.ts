// The composed script on its own real redis-server, called as the store calls it.
import { Redis } from 'ioredis';
import { CLOCK, WITHOUT_TTL } from '../../local/clocked-script.ts';
import { type LuaEngine, startScriptServer } from '../../local/script-server.ts';
import { rewriteScript } from '../../local/upstash-gateway/scripts.ts';
import type { Operation } from '../../src/core/counting/check.ts';
import type { AnswerOf } from '../../src/core/ports/region.ts';
import { loadScript } from '../../src/redis/script.ts';
import { parseAnswer, toScriptCall } from '../../src/redis/wire.ts';
import type { NamedCall } from '../shared/any-call.ts';
import { LUA } from './lua-engine.ts';

export interface LuaCounters extends AsyncDisposable {
  readonly redis: Redis;
  readonly port: number;
  readonly script: string;
  run<O extends Operation>(call: NamedCall<O>): Promise<AnswerOf<O>>;
}

/** The script for stock Redis, without the flag that only Upstash knows. */
export async function stockScript(prelude = ''): Promise<string> {
  const { text } = await loadScript();
  return rewriteScript(text, () => prelude) ?? text;
}

/** The script for Upstash, with the flag. */
async function flaggedScript(prelude: string): Promise<string> {
  const { text } = await loadScript();
  const end = text.indexOf('\n') + 1;
  return `${text.slice(0, end)}${prelude} ${text.slice(end)}`;
}

export const scriptFor = (lua: LuaEngine, prelude: string): Promise<string> =>
  lua === 'gopher' ? flaggedScript(prelude) : stockScript(prelude);

type Command = (count: number, ...rest: string[]) => Promise<unknown>;

export interface LuaCountersOptions {
  /** Keys never expire by the server's clock, for histories on an injected one. */
  readonly injectedClock: boolean;
}

export async function startLuaCounters({ injectedClock }: LuaCountersOptions): Promise<LuaCounters> {
  const server = await startScriptServer({ port: 0, name: 'counters', lua: LUA });
  const redis = new Redis(server.port);
  const script = await scriptFor(LUA, '');
  redis.defineCommand('counters', { lua: script });
  const clocked = await scriptFor(LUA, injectedClock ? `${CLOCK} ${WITHOUT_TTL}` : CLOCK);
  redis.defineCommand('clocked', { lua: clocked });
  const command = redis as Redis & Record<'counters' | 'clocked', Command>;

  return {
    redis,
    port: server.port,
    script,
    async run<O extends Operation>(call: NamedCall<O>) {
      const { operation, checks, nowMs } = call;
      const { keys, args } = toScriptCall<O>(operation, call);
      const reply =
        nowMs === undefined && !injectedClock
          ? await command.counters(keys.length, ...keys, ...args)
          : await command.clocked(keys.length, ...keys, ...args, String(nowMs ?? ''));
      return parseAnswer<O>(operation, reply, checks);
    },
    async [Symbol.asyncDispose]() {
      redis.disconnect();
      await server.stop();
    },
  };
}
