// Sends the load from a thread of its own: many subjects, each a new address. Some ask twice and are denied the second
// time, because denials are what an isolate remembers of a subject.
import { parentPort } from 'node:worker_threads';
import { Client } from 'undici';
import type { SubjectsReport, SubjectsRequest } from './load.ts';

parentPort?.on('message', (asked: SubjectsRequest) => {
  run(asked).then(
    (uncounted) => parentPort?.postMessage({ uncounted } satisfies SubjectsReport),
    (error: unknown) => parentPort?.postMessage({ failure: String(error) } satisfies SubjectsReport),
  );
});

/** One of this many subjects asks twice, so that the first round has more denials than an isolate remembers. */
const ASKS_TWICE = 8;

async function run({ target, from, count, concurrency }: SubjectsRequest): Promise<string[]> {
  const uncounted: string[] = [];
  let next = from;
  const keepAsking = async () => {
    const client = new Client(target.origin, { pipelining: 1, keepAliveTimeout: 60_000 });
    while (next < from + count) {
      const subject = next;
      next += 1;
      for (const status of subject % ASKS_TWICE === 0 ? [200, 429] : [200]) {
        const trouble = await ask(client, target, subject, status).catch(String);
        if (trouble !== undefined) uncounted.push(trouble);
      }
    }
    await client.close();
  };
  await Promise.all(Array.from({ length: concurrency }, keepAsking));
  return uncounted;
}

type Target = SubjectsRequest['target'];

/** Returns why the request was not counted. */
async function ask(client: Client, { path, isWeir }: Target, subject: number, status: number) {
  const headers = { 'CF-Connecting-IP': addressOf(subject) };
  const answer = await client.request({ path, method: 'GET', headers });
  await answer.body.dump();
  const degraded = answer.headers['x-weir-degraded'];
  if (degraded !== undefined) return String(degraded);
  const expected = isWeir ? status : 200;
  return answer.statusCode === expected ? undefined : `${answer.statusCode} instead of ${expected}`;
}

const addressOf = (n: number) => `10.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}`;
