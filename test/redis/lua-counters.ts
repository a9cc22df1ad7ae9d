// The composed script on its own real redis-server, called as the store calls it.
import { Redis } from 'ioredis';
import { type LuaEngine, startScriptServer } from '../../local/script-server.ts';
import { rewriteScript } from '../../local/upstash-gateway/scripts.ts';
import type { Answer } from '../../src/core/counting/check.ts';
import type { CounterCall } from '../../src/core/ports/region.ts';
import { composeScript } from '../../src/redis/script.ts';
import { parseAnswer, toScriptCall } from '../../src/redis/wire.ts';
import { LUA } from './lua-engine.ts';

export interface LuaCounters extends AsyncDisposable {
  readonly redis: Redis;
  readonly port: number;
  readonly script: string;
  run(call: CounterCall): Promise<Answer>;
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
    async run(call) {
      const { keys, args } = toScriptCall(call);
      return parseAnswer(await command.counters(keys.length, ...keys, ...args), call.checks);
    },
    async [Symbol.asyncDispose]() {
      redis.disconnect();
      await server.stop();
    },
  };
}
