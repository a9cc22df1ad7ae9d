// A redis-server whose scripts run on the requested Lua: its own, or that of Upstash, in a program in front of it.
import { LOOPBACK } from './ports.ts';
import { type RedisServer, startRedisServer } from './redis-server.ts';
import { buildUpstashLua } from './upstash-lua/build.ts';
import { startLuaProxy } from './upstash-lua/proxy.ts';

export type LuaEngine = 'redis' | 'gopher';

export interface ScriptServer {
  /** The server itself, for tests that kill, freeze or inspect it. */
  readonly redis: RedisServer;
  readonly lua: LuaEngine;
  /** The port of the program that runs scripts and forwards all other commands. */
  readonly port: number;
  readonly url: string;
  stop(): Promise<void>;
}

export interface ScriptServerOptions {
  readonly name: string;
  /** The port of the redis-server; 0 for any free one. */
  readonly port: number;
  readonly lua: LuaEngine;
}

export async function startScriptServer({ name, port, lua }: ScriptServerOptions): Promise<ScriptServer> {
  const binary = lua === 'gopher' ? await buildUpstashLua({ say: () => {} }) : undefined;
  const redis = await startRedisServer({ port, name });
  if (binary === undefined) return { redis, lua, port: redis.port, url: redis.url, stop: () => redis.stop() };
  const proxy = await startLuaProxy(binary, redis.port).catch(async (error) => {
    await redis.stop();
    throw error;
  });
  const stop = async () => {
    await proxy.stop();
    await redis.stop();
  };
  return { redis, lua, port: proxy.port, url: `redis://${LOOPBACK}:${proxy.port}`, stop };
}
