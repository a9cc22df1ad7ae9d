// A `fetch` that uses a limit without hitting it. It reads the RateLimit fields of responses, spaces the requests of
// this process accordingly, and waits as long as Retry-After asks. It imports nothing else of Weir.
import { readingsOf, retryAfterMs } from './fields.ts';
import { createPace, type Pace } from './pace.ts';

export interface ClientOptions {
  /** Sends the requests; the global `fetch` if left out. */
  readonly fetch?: ((input: Request) => Promise<Response>) | undefined;
  /** How often a request that was denied (429, or 503 with Retry-After) is sent again. 3 if left out. */
  readonly retries?: number | undefined;
  /** Requests that share limits have the same group. The origin of the URL if left out. */
  readonly group?: ((request: Request) => string) | undefined;
  readonly now?: (() => number) | undefined;
  readonly random?: (() => number) | undefined;
  readonly sleep?: ((ms: number) => Promise<unknown>) | undefined;
}

/** The state of one group of requests. */
interface Group {
  readonly paces: Map<string, Pace>;
  /** The client sends no request before this time, because a response has asked it to wait. */
  blockedUntilMs: number;
  /** Until then, other requests wait for the first one to learn the limits; 0 once the first one is back. */
  firstUntilMs?: number | undefined;
}

/** The longest wait for the first request, and how often the others check whether it is back. */
const FIRST_MS = 5_000;
const LOOK_MS = 20;
/** Beyond this, the group used longest ago is dropped. */
const MAX_GROUPS = 1_000;
/** Each client waits up to this part longer, so that clients with the same Retry-After do not return together. */
const SPREAD = 0.1;

export type LimitedFetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

export function createFetch(options: ClientOptions = {}): LimitedFetch {
  const { retries = 3, now = Date.now, random = Math.random } = options;
  const send = options.fetch ?? ((request) => fetch(request));
  const sleep = options.sleep ?? ((ms) => new Promise((resolve) => setTimeout(resolve, ms)));
  const groupName = options.group ?? (({ url }) => new URL(url).origin);
  const groups = new Map<string, Group>();

  const groupOf = (request: Request): Group => {
    const name = groupName(request);
    const group = groups.get(name) ?? { paces: new Map(), blockedUntilMs: 0 };
    groups.delete(name);
    groups.set(name, group);
    const [oldest] = groups.keys();
    if (groups.size > MAX_GROUPS && oldest !== undefined) groups.delete(oldest);
    return group;
  };

  const waitForTurn = async (group: Group, { signal }: Request) => {
    const turns = [...group.paces.values()].map((pace) => pace.claim(now()));
    // Another response may move the time further back meanwhile, so the loop checks again.
    for (const at = Math.max(0, ...turns); now() < Math.max(at, group.blockedUntilMs); ) {
      await sleep(Math.ceil(Math.max(at, group.blockedUntilMs) - now()));
      signal.throwIfAborted();
    }
  };

  const learn = (group: Group, { headers, status }: Response, sentAtMs: number) => {
    const isDenied = status === 429 || status === 503;
    const cost = isDenied ? 0 : Number(headers.get('X-RateLimit-Cost') ?? 1) || 1;
    for (const reading of readingsOf(headers)) {
      const pace = group.paces.get(reading.name) ?? createPace(random);
      group.paces.set(reading.name, pace);
      pace.learn(reading, { cost, sentAtMs }, now());
    }
    const waitMs = isDenied ? retryAfterMs(headers, now()) : undefined;
    if (waitMs === undefined) return false;
    group.blockedUntilMs = Math.max(group.blockedUntilMs, now() + waitMs * (1 + SPREAD * random()));
    return true;
  };

  const sendInTurn = async (group: Group, request: Request) => {
    for (let left = retries; ; left -= 1) {
      await waitForTurn(group, request);
      const sentAtMs = now();
      const response = await send(left > 0 ? request.clone() : request);
      if (!learn(group, response, sentAtMs) || left <= 0) return response;
      await response.body?.cancel();
    }
  };

  return async (input, init) => {
    const request = new Request(input, init);
    const group = groupOf(request);
    // The first request goes alone, to learn the limits. The others poll, because a shared promise would hang on
    // Workers.
    while (now() < (group.firstUntilMs ?? 0)) await sleep(LOOK_MS);
    group.firstUntilMs ??= now() + FIRST_MS;
    try {
      return await sendInTurn(group, request);
    } finally {
      group.firstUntilMs = 0;
    }
  };
}
