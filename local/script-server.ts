// A redis-server whose scripts run on the Lua that is asked for: its own, or in front of it the one that Upstash runs.
import { LOOPBACK } from './ports.ts';
import { type RedisServer, startRedisServer } from './redis-server.ts';
import { buildUpstashLua } from './upstash-lua/build.ts';
import { startLuaProxy } from './upstash-lua/proxy.ts';

export type LuaEngine = 'redis' | 'gopher';

export interface ScriptServer {
  /** The server itself: kill it, freeze it, look into it. */
  readonly redis: RedisServer;
  readonly lua: LuaEngine;
  /** Of what runs scripts and forwards all else. */
  readonly port: number;
  readonly url: string;
  stop(): Promise<void>;
}

export interface ScriptServerOptions {
  readonly name: string;
  /** Of the redis-server; 0 for any free one. */
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
