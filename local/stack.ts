// Everything around the Worker on one machine: Redis in three regions behind Upstash gateways, Postgres behind a Neon
// gateway, and a demo origin. `npm run dev` and the tests use it.
import { join } from 'node:path';
import { applyMigrations } from './migrations.ts';
import { type NeonGateway, startNeonGateway } from './neon-gateway/server.ts';
import { startOrigin } from './origin.ts';
import { StackError } from './ports.ts';
import { describePostgres, startPostgres } from './postgres.ts';
import { findOrInstallRedis } from './redis-server.ts';
import { type LocalRegion, regionsVariable, startRegions } from './regions.ts';
import type { LuaEngine } from './script-server.ts';
import type { Settings } from './settings.ts';
import { buildUpstashLua } from './upstash-lua/build.ts';

export interface StackOptions {
  readonly ports: Omit<Settings['ports'], 'worker'>;
  /** Where Postgres keeps its data. The default is memory. */
  readonly dataDir?: string | undefined;
  readonly databaseUrl?: string | undefined;
  /** Starts with an empty database. Never empties a person's own at `databaseUrl`. */
  readonly fresh?: boolean | undefined;
  readonly originUrl?: string | undefined;
  /** The Lua that runs the scripts. The default is that of Redis. */
  readonly lua?: LuaEngine | undefined;
  /** Whether the first region is a Redis Cluster. */
  readonly cluster?: boolean | undefined;
  /** Called before each part that takes a while. */
  readonly say: (line: string) => void;
  /** If aborted, the start ends between two parts, and stops those that run. */
  readonly signal?: AbortSignal | undefined;
}

export interface Stack extends AsyncDisposable {
  readonly regions: readonly LocalRegion[];
  readonly databaseUrl: string;
  /** In front of Postgres. Its faults do not touch Postgres itself. */
  readonly neon: Pick<NeonGateway, 'url' | 'fetchEndpoint' | 'faults' | 'failedCount'>;
  readonly originUrl: string;
  /** The variables that the Worker needs. */
  readonly variables: Readonly<Record<string, string>>;
  /** Ends the local Postgres alone, for tests without it. */
  stopPostgres(): Promise<void>;
}

export async function startStack(options: StackOptions): Promise<Stack> {
  const { ports, lua, cluster, signal } = options;
  const say = (line: string) => {
    signal?.throwIfAborted();
    options.say(line);
  };
  await using cleanup = new AsyncDisposableStack();

  await findOrInstallRedis({ say });
  if (lua === 'gopher') await buildUpstashLua({ say });
  say('starting Redis and its Upstash gateways: us, eu, ap');
  const regionPorts = { redisPort: ports.redis, upstashPort: ports.upstash };
  const regions = await startRegions({ ...regionPorts, lua, cluster }, cleanup);

  say(options.databaseUrl ? 'migrating the Postgres at DATABASE_URL' : 'starting Postgres (a few seconds)');
  if (options.databaseUrl) await describePostgres(options.databaseUrl);
  const postgres = options.databaseUrl ? undefined : await startLocalPostgres(options, cleanup);
  const databaseUrl = options.databaseUrl ?? postgres?.url ?? '';
  const neon = await startNeonGateway({ port: ports.neon, databaseUrl });
  cleanup.defer(() => neon.stop());
  await applyMigrations(databaseUrl).catch((error: Error) => {
    throw new StackError(`the migrations could not be applied: ${error.message.split('\n')[0]}`);
  });

  const originUrl = options.originUrl ?? (await startDemoOrigin(ports.origin, cleanup));
  const owned = cleanup.move();
  return {
    regions,
    databaseUrl,
    neon,
    originUrl,
    variables: {
      ENVIRONMENT: 'development',
      ORIGIN_URL: originUrl,
      REGIONS: regionsVariable(regions),
      DATABASE_URL: databaseUrl,
      DATABASE_HTTP_ENDPOINT: neon.fetchEndpoint,
    },
    stopPostgres: async () => postgres?.stop(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function startLocalPostgres({ ports, dataDir, fresh }: StackOptions, cleanup: AsyncDisposableStack) {
  const postgres = await startPostgres({
    port: ports.postgres,
    fresh: fresh === true,
    ...(dataDir && { dataDir: join(dataDir, 'postgres') }),
  });
  cleanup.defer(() => postgres.stop());
  return postgres;
}

async function startDemoOrigin(port: number, cleanup: AsyncDisposableStack): Promise<string> {
  const origin = await startOrigin({ port });
  cleanup.defer(() => origin.stop());
  return origin.url;
}
