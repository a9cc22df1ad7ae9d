// The Lua for the tests of this folder: that of Redis, or with WEIR_LUA=gopher that of Upstash (`npm run
// test:upstash-lua`).
import type { RedisServer } from '../../local/redis-server.ts';
import { type LuaEngine, startScriptServer } from '../../local/script-server.ts';
import { startUpstashGateway, type UpstashGateway } from '../../local/upstash-gateway/server.ts';

export const LUA: LuaEngine = process.env['WEIR_LUA'] === 'gopher' ? 'gopher' : 'redis';

export interface Upstash {
  readonly server: RedisServer;
  readonly gateway: UpstashGateway;
  stop(): Promise<void>;
}

/** A redis-server behind a gateway, as in a region. Its token is `token`. */
export async function startUpstash(name: string): Promise<Upstash> {
  const scripts = await startScriptServer({ port: 0, name, lua: LUA });
  const gateway = await startUpstashGateway({
    port: 0,
    token: 'token',
    redisUrl: scripts.url,
    runsUpstashLua: LUA === 'gopher',
    name,
  });
  const stop = async () => {
    await gateway.stop();
    await scripts.stop();
  };
  return { server: scripts.redis, gateway, stop };
}
