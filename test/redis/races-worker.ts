// One of several racing processes. It sends all its script calls at once, reports which were admitted, and waits for
// the next race.
import { Redis } from 'ioredis';

export interface RaceTask {
  readonly port: number;
  readonly script: string;
  readonly calls: readonly { readonly keys: string[]; readonly args: string[] }[];
}

/** The script's replies, in the order of the calls. */
export type RaceResult = number[][];

const tell = (message: 'ready' | RaceResult) => process.send?.(message);

let redis: Redis | undefined;
let start = async () => {};

process.on('message', async (message: RaceTask | 'go') => {
  if (message === 'go') return start();
  const { port, script, calls } = message;
  redis ??= new Redis(port);
  const connection = redis;
  const sha = (await connection.script('LOAD', script)) as string;
  start = async () => {
    const replies = calls.map(({ keys, args }) => connection.evalsha(sha, keys.length, ...keys, ...args));
    tell((await Promise.all(replies)) as RaceResult);
  };
  tell('ready');
});
