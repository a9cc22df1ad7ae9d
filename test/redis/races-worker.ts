// One of several processes that race: sends all its calls of the script at once, and tells which were admitted.
import { Redis } from 'ioredis';

export interface RaceTask {
  readonly port: number;
  readonly script: string;
  readonly calls: readonly { readonly keys: string[]; readonly args: string[] }[];
}

/** The script's replies, in the order of the calls. */
export type RaceResult = number[][];

const tell = (message: 'ready' | RaceResult) => process.send?.(message);

process.once('message', async (task: RaceTask) => {
  const redis = new Redis(task.port);
  const sha = (await redis.script('LOAD', task.script)) as string;
  process.once('message', async () => {
    const replies = task.calls.map(({ keys, args }) => redis.evalsha(sha, keys.length, ...keys, ...args));
    tell((await Promise.all(replies)) as RaceResult);
    redis.disconnect();
    process.disconnect();
  });
  tell('ready');
});
