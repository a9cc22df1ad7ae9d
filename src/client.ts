// A `fetch` that uses a limit without hitting it. It reads the RateLimit fields of responses, spaces the requests of
// this process accordingly, and waits as long as Retry-After asks. It imports nothing else of Weir.
import { readingsOf, retryAfterMs } from './client/fields.ts';
import { type ClientPace, createPace } from './client/pace.ts';

export interface ClientOptions {
  /** Sends the requests; the global `fetch` if left out. */
  readonly fetch?: ((input: Request) => Promise<Response>) | undefined;
  /** How often a request that was denied (429, or 503 with Retry-After) is sent again. 3 if left out. */
  readonly retries?: number | undefined;
  /** Requests that share limits have the same group. The origin of the URL if left out. */
  readonly group?: ((request: Request) => string) | undefined;
  /**
   * Spaces requests evenly over each window. If left out, requests are sent at once while enough units are left, and are
   * spaced only when others could use up the rest meanwhile.
   */
  readonly spread?: boolean | undefined;
  readonly now?: (() => number) | undefined;
  readonly random?: (() => number) | undefined;
  readonly sleep?: ((ms: number, signal: AbortSignal) => Promise<unknown>) | undefined;
}

/** The state of one group of requests. */
interface Group {
  readonly paces: Map<string, ClientPace>;
  /** Requests that wait for their turn or for their response. */
  pending: number;
  /** The client sends no request before this time, because a response has asked it to wait. */
  freeAtMs: number;
  /** Until then, other requests wait for the first one to learn the limits; 0 once the first one is back. */
  firstMs?: number | undefined;
}

/** The longest wait for the first request, and how often the others check whether it is back. */
const FIRST_MS = 5_000;
const LOOK_MS = 20;
/** Beyond this, the group used longest ago is dropped. */
const MAX_GROUPS = 1_000;
/** Each client waits up to this part longer, so that clients with the same Retry-After do not return together. */
const SPREAD = 0.1;
/** Timers count in 32 bits. A longer wait is made of several. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export type LimitedFetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

export function createFetch(options: ClientOptions = {}): LimitedFetch {
  const { retries = 3, spread, now = Date.now, random = Math.random } = options;
  const send = options.fetch ?? ((request) => fetch(request));
  const sleep = options.sleep ?? sleepUnlessAborted;
  const groupName = options.group ?? (({ url }) => new URL(url).origin);
  const groups = new Map<string, Group>();

  const groupOf = (request: Request): Group => {
    const name = groupName(request);
    const group = groups.get(name) ?? { paces: new Map(), pending: 0, freeAtMs: 0 };
    groups.delete(name);
    groups.set(name, group);
    const [oldest] = groups.keys();
    if (groups.size > MAX_GROUPS) groups.delete(oldest as string);
    return group;
  };

  const waitForTurn = async (group: Group, { signal }: Request) => {
    const at = Math.max(0, ...[...group.paces.values()].map((pace) => pace.claim(now())));
    // Another response may move the time further back meanwhile, so the loop checks again.
    for (let ms = 1; ms > 0; ) {
      signal.throwIfAborted();
      ms = Math.ceil(Math.max(at, group.freeAtMs) - now());
      if (ms > 0) await sleep(Math.min(ms, LONGEST_TIMER_MS), signal);
    }
  };

  const learn = (group: Group, { headers, status }: Response, sentAtMs: number) => {
    const isDenied = status === 429 || status === 503;
    const cost = isDenied ? 0 : Number(headers.get('X-RateLimit-Cost')) || 1;
    for (const reading of readingsOf(headers)) {
      const pace = group.paces.get(reading.name) ?? createPace(random, spread);
      group.paces.set(reading.name, pace);
      pace.learn(reading, { cost, sentAtMs, pending: group.pending }, now());
    }
    const waitMs = isDenied ? retryAfterMs(headers, now()) : undefined;
    if (waitMs === undefined) return false;
    group.freeAtMs = Math.max(group.freeAtMs, now() + waitMs * (1 + SPREAD * random()));
    return true;
  };

  const sendInTurn = async (group: Group, request: Request) => {
    for (let left = retries; ; left -= 1) {
      group.pending += 1;
      let sentAtMs: number;
      let response: Response;
      try {
        await waitForTurn(group, request);
        sentAtMs = now();
        response = await send(left > 0 ? request.clone() : request);
      } finally {
        group.pending -= 1;
      }
      if (!learn(group, response, sentAtMs) || left <= 0) return response;
      await response.body?.cancel();
    }
  };

  return async (input, init) => {
    const request = new Request(input, init);
    const group = groupOf(request);
    // The first request goes alone, to learn the limits. The others poll, because a shared promise would hang on
    // Workers.
    while (now() < (group.firstMs ?? 0)) await sleep(LOOK_MS, request.signal);
    group.firstMs ??= now() + FIRST_MS;
    try {
      return await sendInTurn(group, request);
    } finally {
      group.firstMs = 0;
    }
  };
}

const sleepUnlessAborted = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
