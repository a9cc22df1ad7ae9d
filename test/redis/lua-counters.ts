// The composed script on its own real redis-server, called as the store calls it.
import { Redis } from 'ioredis';
import { type LuaEngine, startScriptServer } from '../../local/script-server.ts';
import { rewriteScript } from '../../local/upstash-gateway/scripts.ts';
import type { Operation } from '../../src/core/counting/check.ts';
import type { AnswerOf } from '../../src/core/ports/region.ts';
import { composeScript } from '../../src/redis/script.ts';
import { parseAnswer, toScriptCall } from '../../src/redis/wire.ts';
import type { NamedCall } from '../shared/any-call.ts';
import { LUA } from './lua-engine.ts';

export interface LuaCounters extends AsyncDisposable {
  readonly redis: Redis;
  readonly port: number;
  readonly script: string;
  run<O extends Operation>(call: NamedCall<O>): Promise<AnswerOf<O>>;
}

/** Redis expires keys by its own clock. With an injected clock, keys must not expire by the clock of Redis. */
const WITHOUT_TTL = [
  'local real = redis',
  'local redis = { pcall = real.pcall }',
  "redis.call = function(name, key, value, ...) if name == 'SET' then return real.call('SET', key, value) end",
  'if value then return real.call(name, key, value, ...) end',
  'if key then return real.call(name, key) end return real.call(name) end',
].join(' ');

/** The script for stock Redis, without the flag that only Upstash knows. */
export async function stockScript(prelude = ''): Promise<string> {
  const { text } = await composeScript();
  return rewriteScript(text, () => prelude) ?? text;
}

/** The script for Upstash, with the flag. */
async function flaggedScript(prelude: string): Promise<string> {
  const { text } = await composeScript();
  const end = text.indexOf('\n') + 1;
  return `${text.slice(0, end)}${prelude} ${text.slice(end)}`;
}

export const scriptFor = (lua: LuaEngine, prelude: string): Promise<string> =>
  lua === 'gopher' ? flaggedScript(prelude) : stockScript(prelude);

export interface LuaCountersOptions {
  /** Keys never expire by the server's clock, for histories on an injected one. */
  readonly injectedClock: boolean;
}

export async function startLuaCounters({ injectedClock }: LuaCountersOptions): Promise<LuaCounters> {
  const server = await startScriptServer({ port: 0, name: 'counters', lua: LUA });
  const redis = new Redis(server.port);
  const script = await scriptFor(LUA, injectedClock ? WITHOUT_TTL : '');
  redis.defineCommand('counters', { lua: script });
  const command = redis as Redis & { counters(count: number, ...rest: string[]): Promise<unknown> };

  return {
    redis,
    port: server.port,
    script,
    async run<O extends Operation>(call: NamedCall<O>) {
      const { operation, checks } = call;
      const { keys, args } = toScriptCall<O>(operation, call);
      return parseAnswer<O>(operation, await command.counters(keys.length, ...keys, ...args), checks);
    },
    async [Symbol.asyncDispose]() {
      redis.disconnect();
      await server.stop();
    },
  };
}
