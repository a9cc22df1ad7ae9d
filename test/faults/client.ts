// What a client of the whole stack sees: each answer, what Weir says about how it was decided, and how long it took.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { openConnectionPool } from '../../local/connection-pool.ts';
import { type SteadyResult, steadyLoad } from '../../local/steady-load.ts';
import { freshIp, type IsolateName, type Weir } from '../../local/weir.ts';

/** Far beyond any deadline. A request without an answer by then gets none. */
const GIVE_UP_MS = 15_000;
/** The isolate itself answers it, without any part that could fail. Its time shows how busy the machine is. */
const CONTROL_PATH = '/_weir/nothing-here';

export interface Ask {
  readonly path: string;
  readonly isolate?: IsolateName;
  readonly region?: string;
  readonly ip?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Answer {
  readonly ask: Ask & { readonly isolate: IsolateName };
  readonly status: number;
  /**
   * X-Weir-Degraded and X-Weir-Fallback. `slow` is left out: it says that a region counted the request, but late, which
   * a busy machine causes without a fault. Tests judge lateness by `slowestMs`; delays.test.ts tests `slow` itself.
   */
  readonly degraded: string | undefined;
  readonly fallback: string | undefined;
  readonly header: (name: string) => string | undefined;
  /** By the clock that the parts of the stack share. */
  readonly sentAtMs: number;
  readonly answeredAtMs: number;
}

export type Seen = SteadyResult<Answer>;

export interface Load {
  readonly answers: readonly Answer[];
  readonly errors: readonly string[];
  readonly slowestMs: number;
  /**
   * How long the machine kept requests waiting: requests that need only the isolate, sent along with each of the
   * others, or this process, in which the gateways run, too.
   */
  readonly controlMs: number;
}

export interface LoadOptions {
  readonly perSecond: number;
  readonly ms: number;
  readonly next: (i: number) => Ask;
  readonly signal?: AbortSignal;
}

export interface Client extends Disposable {
  ask(ask: Ask): Promise<Answer>;
  load(options: LoadOptions): Promise<Load>;
}

export function openClient(weir: Weir): Client {
  const ownPool = openConnectionPool();

  const ask = async (asked: Ask, pool = ownPool): Promise<Answer> => {
    const { path, isolate = 'one', region = 'us', ip = freshIp() } = asked;
    const sentAtMs = Date.now();
    const { status, headers } = await pool.request(`${weir.isolates.urls[isolate]}${path}`, {
      headers: { 'CF-Connecting-IP': ip, 'X-Weir-Region': region, ...asked.headers },
      signal: AbortSignal.timeout(GIVE_UP_MS),
    });
    const header = (name: string) => headers[name.toLowerCase()]?.toString();
    const [reason, fallback] = [header('X-Weir-Degraded'), header('X-Weir-Fallback')];
    const degraded = reason === 'slow' ? undefined : reason;
    const answeredAtMs = Date.now();
    return { ask: { ...asked, isolate }, status, degraded, fallback, header, sentAtMs, answeredAtMs };
  };

  const control = (i: number): Ask => ({ path: CONTROL_PATH, isolate: i % 2 === 0 ? 'one' : 'two' });

  return {
    ask: (asked) => ask(asked),
    async load({ next, ...options }) {
      // A pool of its own, because workerd closes a connection that was idle for 5 s, maybe just when it is used again.
      using pool = openConnectionPool();
      const standstill = monitorEventLoopDelay({ resolution: 10 });
      standstill.enable();
      // Until the last answer has come, which waits for the machine, too.
      const ended = new AbortController();
      const until = { ...options, ms: options.ms + GIVE_UP_MS, signal: ended.signal };
      const [results, controls] = await Promise.all([
        steadyLoad({ ...options, send: (i) => ask(next(i), pool) }).finally(() => ended.abort()),
        steadyLoad({ ...until, send: (i) => ask(control(i), pool) }),
      ]);
      standstill.disable();
      return {
        answers: results.flatMap(({ value }) => value ?? []),
        errors: [...results, ...controls].flatMap(({ error }) => (error ? [String(error)] : [])),
        slowestMs: slowest(results),
        controlMs: Math.max(slowest(controls), standstill.max / 1e6),
      };
    },
    [Symbol.dispose]: () => ownPool[Symbol.dispose](),
  };
}

const slowest = (results: readonly Seen[]) => Math.max(0, ...results.map(({ tookMs }) => tookMs));
