// A flood: a million denials of a hundred thousand callers at three isolates in workerd, through a queue and its
// consumer into Postgres. Counts messages and rows, and checks that no denial is missing in the sum.
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { startWeir, type Weir } from '../local/weir.ts';
import { openPipeline } from './flood/pipeline.ts';
import type { Bench } from './shared/bench.ts';

export const measures = 'a million denials of a hundred thousand callers, through a queue into Postgres';

export const keys = ['denials', 'written', 'lost', 'rows', 'messages', 'deadLetters', 'uncounted'];

const SUBJECTS = 100_000;
const DENIALS_EACH = 10;
const ISOLATES = ['one', 'two', 'three'] as const;
const CONNECTIONS_EACH = 4;
/** If no row was written for this long, something is lost. */
const MAX_SILENCE_MS = 60_000;
/** The first request of each caller passes. */
const RULE = {
  resource: '/flood',
  scope: 'ip',
  algorithm: 'fixed-window',
  limit: 1,
  windowSeconds: 86_400,
};

export const run: Bench = async ({ say, scaled, parts }) => {
  // In a flood, isolates flush every ten seconds. The short form does not last that long.
  const variables = scaled(SUBJECTS) < SUBJECTS ? { TELEMETRY_SECONDS: '0.1' } : {};
  await using weir = await startWeir(variables, { ...parts, queue: 'weir-records' });
  await weir.admin('/rules', { method: 'POST', body: RULE });
  const subjects = scaled(SUBJECTS);
  say(`${subjects * (1 + DENIALS_EACH)} requests of ${subjects} callers`);
  const startedAtMs = performance.now();
  const { denied, others } = await flood(weir, subjects);
  const floodSeconds = (performance.now() - startedAtMs) / 1_000;
  say(`${denied} denials in ${floodSeconds.toFixed(0)} s`);
  const found = await waitForAll(weir, denied);
  const deadLetters = await readDeadLetters(weir);
  const uncounted = others - subjects;
  const lost = denied - found.written;
  return {
    tables: [
      {
        title: `${denied} denials of ${subjects} callers, at ${ISOLATES.length} isolates, in ${floodSeconds.toFixed(0)} s`,
        head: ['', ''],
        rows: [
          ['denials that Postgres has', found.written],
          ['of these summed up under "other"', found.other],
          ['denials that are lost', lost],
          ['rows', found.rows],
          ['messages of the queue', found.messages],
          ['messages that came to the dead-letter queue', deadLetters],
        ],
        notes: [`Passed, though their caller had no unit left: ${uncounted}.`],
      },
    ],
    json: {
      denials: denied,
      subjects,
      floodSeconds,
      lost,
      deadLetters,
      ...found,
      uncounted,
      uncountedReasons: uncounted > 0 ? { passed: uncounted } : {},
    },
  };
};

/**
 * Sends the requests of one caller one after the other, so that the isolate denies all but the first two from memory.
 */
async function flood(weir: Weir, subjects: number) {
  let next = 0;
  let denied = 0;
  let others = 0;
  const work = async (isolate: string) => {
    await using pipeline = await openPipeline(weir.isolates.urls[isolate] ?? '');
    while (next < subjects) {
      const ip = addressOf(next++);
      const statuses = await pipeline.ask(Array(1 + DENIALS_EACH).fill(requestOf(ip)));
      const refused = statuses.filter((status) => status === 429).length;
      denied += refused;
      others += statuses.length - refused;
    }
  };
  const connections = ISOLATES.flatMap((isolate) => Array<string>(CONNECTIONS_EACH).fill(isolate));
  await Promise.all(connections.map(work));
  return { denied, others };
}

const addressOf = (i: number) => `10.${(i >> 16) & 255}.${(i >> 8) & 255}.${i & 255}`;

const requestOf = (ip: string) =>
  `GET /flood HTTP/1.1\r\nHost: flood.test\r\nCF-Connecting-IP: ${ip}\r\nX-Weir-Region: us\r\n\r\n`;

interface Written {
  readonly written: number;
  readonly other: number;
  readonly rows: number;
  readonly messages: number;
}

async function waitForAll(weir: Weir, denied: number): Promise<Written> {
  const client = new pg.Client({ connectionString: weir.stack.databaseUrl });
  await client.connect();
  let last = await read(client);
  for (let newsAtMs = Date.now(); last.written < denied && Date.now() - newsAtMs < MAX_SILENCE_MS; ) {
    // An isolate flushes after a response.
    for (const isolate of ISOLATES) await (await weir.call('/calm', { isolate })).body?.cancel();
    await sleep(200);
    const seen = await read(client);
    if (seen.written > last.written) newsAtMs = Date.now();
    last = seen;
  }
  await client.end();
  return last;
}

async function read(client: pg.Client): Promise<Written> {
  const { rows } = await client.query<Record<keyof Written, string>>(`
    select coalesce(sum(count), 0) as written, coalesce(sum(count) filter (where subject = 'other'), 0) as other,
      count(*) as rows, (select count(*) from weir.record_batches) as messages
    from weir.denials`);
  const [found] = rows;
  if (!found) throw new Error('Postgres has not answered');
  return {
    written: Number(found.written),
    other: Number(found.other),
    rows: Number(found.rows),
    messages: Number(found.messages),
  };
}

/** Reads the metrics of all isolates. */
async function readDeadLetters(weir: Weir): Promise<number> {
  const answer = await weir.call('/_weir/metrics', { headers: { Authorization: `Bearer ${weir.token}` } });
  const counts = (await answer.text()).matchAll(/^weir_dead_letters_total\{.*\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}
