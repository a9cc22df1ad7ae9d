// One real redis-server that runs scripts by SHA, in pipelines, and measures their cost: time, commands, bytes.
import { Redis } from 'ioredis';
import { startRedisServer } from '../../local/redis-server.ts';
import { sumCalls } from '../../local/upstash-gateway/billing.ts';
import { rewriteScript } from '../../local/upstash-gateway/scripts.ts';

export interface ShaCall {
  readonly sha: string;
  readonly keys: readonly string[];
  readonly args: readonly string[];
}

export interface BenchRedis extends AsyncDisposable {
  readonly pid: number;
  /** Loads a script and returns its SHA. Stock Redis gets the text without the flag that only Upstash knows. */
  load(text: string, prelude?: string): Promise<string>;
  /** Resolves to the replies, in order. */
  run(calls: readonly ShaCall[]): Promise<unknown[]>;
  /** Redis's own time for one call in µs, on average. */
  micros(calls: readonly ShaCall[]): Promise<number>;
  /** The commands that Upstash would bill for `run`. */
  billed(run: () => Promise<unknown>): Promise<number>;
  /** The memory of all keys. */
  bytes(): Promise<number>;
  clear(): Promise<void>;
}

export async function startBenchRedis(binary?: string): Promise<BenchRedis> {
  const server = await startRedisServer({ port: 0, name: 'bench', ...(binary && { binary }) });
  const redis = new Redis(server.port);
  const commandstats = () => redis.info('commandstats');

  const run = async (calls: readonly ShaCall[]) => {
    const pipeline = redis.pipeline();
    for (const { sha, keys, args } of calls) pipeline.evalsha(sha, keys.length, ...keys, ...args);
    const replies = (await pipeline.exec()) ?? [];
    return replies.map(([error, reply]) => {
      if (error) throw error;
      return reply;
    });
  };

  return {
    run,
    pid: server.pid,
    load: async (text, prelude = '') =>
      String(await redis.script('LOAD', rewriteScript(text, () => prelude) ?? text)),

    async micros(calls) {
      await redis.config('RESETSTAT');
      await run(calls);
      const [, count, usec] = /cmdstat_evalsha:calls=(\d+),usec=(\d+)/.exec(await commandstats()) ?? [];
      if (Number(count) !== calls.length) throw new Error(`Redis counted ${count} of ${calls.length} calls`);
      return Number(usec) / calls.length;
    },

    async billed(work) {
      const before = sumCalls(await commandstats());
      await work();
      return sumCalls(await commandstats()) - before;
    },

    async bytes() {
      const sizes = (await redis.keys('*')).map((key) => redis.memory('USAGE', key, 'SAMPLES', 0));
      return (await Promise.all(sizes)).reduce<number>((sum, size) => sum + (size ?? 0), 0);
    },

    clear: async () => void (await redis.flushall()),

    async [Symbol.asyncDispose]() {
      redis.disconnect();
      await server.stop();
    },
  };
}
