// Twenty clients on one limit, each in a loop: weir/client, ky and got, in one run against a running Weir. Each
// combination of library and limit has its own address, so that none of them share counters.
import got from 'got';
import ky from 'ky';
import { freshIp, startWeir, type Weir } from '../local/weir.ts';
import { createFetch } from '../src/client.ts';
import type { Bench } from './shared/bench.ts';
import { tallyReasons } from './shared/reasons.ts';
import { percent } from './shared/table.ts';

export const measures =
  '20 clients on one limit: how much of it they use, and how many are denied, beside ky and got';

const CLIENTS = 20;
const LIMIT = 500;
const WINDOW_SECONDS = 10;
const WINDOWS = 3;
/** At first no client knows of the others. */
const WARM_UP_WINDOWS = 1;
const ALGORITHMS = ['fixed-window', 'token-bucket'] as const;
/** The short form has two clients that share a limit. */
const LEAST = { clients: 2, limit: 10 };
/** The warm-up would use up a large burst, which would then be missing. */
const burstOf = { 'fixed-window': () => ({}), 'token-bucket': (limit: number) => ({ burst: limit / 10 }) };
const NAMES = ['weir', 'ky', 'got'] as const;

interface Crowd {
  readonly clients: number;
  readonly limit: number;
}

export const keys = ALGORITHMS.flatMap((algorithm) =>
  NAMES.flatMap((name) => ['used', 'denied'].map((figure) => `${algorithm}.${name}.${figure}`)),
).concat('uncounted');

interface Tally {
  admitted: number;
  denied: number;
  readonly degraded: string[];
}

/** Sends one request, and retries after a denial in the way of its client library. */
type Send = (url: string, headers: Record<string, string>) => Promise<unknown>;

/** Each of the twenty is a client of its own. */
function createSenders(note: (response: Response | { statusCode: number; headers: object }) => void) {
  const seen = async (request: Request) => {
    const response = await fetch(request);
    note(response);
    return response;
  };
  return {
    weir: (): Send => {
      const limited = createFetch({ fetch: seen });
      return async (url, headers) => (await limited(url, { headers })).arrayBuffer();
    },
    ky: (): Send => (url, headers) =>
      ky
        .get(url, { headers, fetch: (input, init) => seen(new Request(input, init)), retry: 10 })
        .arrayBuffer(),
    got: (): Send => async (url, headers) => {
      const answer = await got(url, {
        headers,
        throwHttpErrors: false,
        retry: { limit: 10, statusCodes: [429] },
        hooks: {
          beforeRetry: [({ response }) => void (response && note(response))],
        },
      });
      note(answer);
    },
  } satisfies Record<(typeof NAMES)[number], () => Send>;
}

interface Play extends Crowd {
  readonly path: string;
  readonly windowMs: number;
  readonly windows: number;
  readonly warmUpWindows: number;
}

async function play(
  weir: Weir,
  name: (typeof NAMES)[number],
  { path, windowMs, windows, warmUpWindows, clients, limit }: Play,
) {
  let tally: Tally = { admitted: 0, denied: 0, degraded: [] };
  const senders = createSenders((response) => {
    const { status, reason } = read(response);
    tally[status === 429 ? 'denied' : 'admitted'] += 1;
    if (reason) tally.degraded.push(reason);
  });
  const headers = { 'CF-Connecting-IP': freshIp(), 'X-Weir-Region': 'us' };
  const warmUntilMs = Date.now() + warmUpWindows * windowMs;
  const untilMs = warmUntilMs + windows * windowMs;
  const reset = setTimeout(() => {
    tally = { admitted: 0, denied: 0, degraded: [] };
  }, warmUntilMs - Date.now());
  let result = tally;
  const end = setTimeout(() => {
    result = { ...tally };
  }, untilMs - Date.now());
  await Promise.all(
    Array.from({ length: clients }, async () => {
      const send = senders[name]();
      while (Date.now() < untilMs) await send(`${weir.isolates.urls['one']}${path}`, headers).catch(() => {});
    }),
  );
  clearTimeout(reset);
  clearTimeout(end);
  const { admitted, denied, degraded } = result;
  return {
    used: admitted / (windows * limit),
    denied: denied / Math.max(1, admitted + denied),
    admitted,
    degraded,
  };
}

function read(response: Response | { statusCode: number; headers: object }) {
  if (response instanceof Response)
    return { status: response.status, reason: response.headers.get('X-Weir-Degraded') ?? undefined };
  return {
    status: response.statusCode,
    reason: Reflect.get(response.headers, 'x-weir-degraded') as string | undefined,
  };
}

export const run: Bench = async ({ say, scaled, parts }) => {
  await using weir = await startWeir({}, { ...parts, isolates: ['one'] });
  const clients = scaled(CLIENTS, LEAST.clients);
  const limit = scaled(LIMIT, LEAST.limit);
  const windowSeconds = scaled(WINDOW_SECONDS, 1);
  const windows = scaled(WINDOWS, 1);
  const warmUpWindows = scaled(WARM_UP_WINDOWS, 0);
  for (const algorithm of ALGORITHMS)
    await weir.admin('/rules', {
      method: 'POST',
      body: {
        resource: `/${algorithm}`,
        scope: 'ip',
        algorithm,
        limit,
        windowSeconds,
        ...burstOf[algorithm](limit),
      },
    });
  await new Promise((resolve) => setTimeout(resolve, 600));
  const figures: Record<string, Record<string, Awaited<ReturnType<typeof play>>>> = {};
  for (const algorithm of ALGORITHMS) {
    figures[algorithm] = {};
    for (const name of NAMES) {
      say(`${name}, ${algorithm}`);
      const path = `/${algorithm}`;
      const how = { path, windowMs: windowSeconds * 1_000, windows, warmUpWindows, clients, limit };
      figures[algorithm][name] = await play(weir, name, how);
    }
  }
  const all = Object.values(figures).flatMap((byName) => Object.values(byName));
  const degraded = all.flatMap((one) => one.degraded);
  return {
    tables: [
      {
        title: `${clients} clients on one limit of ${limit} in ${windowSeconds} s, ${windows} windows`,
        head: ['', 'used', 'denied'],
        rows: Object.entries(figures).flatMap(([algorithm, byName]) =>
          Object.entries(byName).map(([name, { used, denied }]) => [
            `${algorithm}, ${name}`,
            percent(used),
            percent(denied),
          ]),
        ),
        notes: ['Used: of what the limit allows in that time. Denied: of all requests that were sent.'],
      },
    ],
    json: { ...figures, uncounted: degraded.length, uncountedReasons: tallyReasons(degraded) },
  };
};
