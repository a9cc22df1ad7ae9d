// The candidates: each is a path of one of the Workers that the arena serves.
import { FIVE_RULES_PATH, ONE_RULE_PATH } from './limits.ts';

export const CANDIDATES = [
  'bare',
  'proxy',
  'ping',
  'fairProxy',
  'fairPing',
  'oneRule',
  'fiveRules',
  'oneRegionOneRule',
  'upstashOne',
  'upstashThree',
  'upstashFive',
  'upstashFiveParallel',
  'fairUpstashOne',
  'fairUpstashFive',
] as const;
export type Candidate = (typeof CANDIDATES)[number];
export type PerCandidate<T> = Readonly<Record<Candidate, T>>;

export const LABELS: PerCandidate<string> = {
  bare: 'a Hono response',
  proxy: 'a proxy',
  ping: 'a proxy after one PING',
  fairProxy: 'a proxy with Weir’s duties',
  fairPing: 'a proxy with Weir’s duties after one PING',
  oneRule: 'Weir, one rule',
  fiveRules: 'Weir, five rules',
  oneRegionOneRule: 'Weir with one region, one rule',
  upstashOne: '@upstash/ratelimit, one limit',
  upstashThree: '@upstash/ratelimit, three limits',
  upstashFive: '@upstash/ratelimit, five limits',
  upstashFiveParallel: '@upstash/ratelimit, five limits at once',
  fairUpstashOne: '@upstash/ratelimit with Weir’s duties, one limit',
  fairUpstashFive: '@upstash/ratelimit with Weir’s duties, five limits',
};

export interface Target {
  /** The Worker's URL. */
  readonly origin: string;
  readonly path: string;
  /** Whether its answers must show that the request was counted. */
  readonly isWeir: boolean;
}

/** All candidates send a small answer of the same size. */
const QUERY = '?bytes=256';

/** A path of a Worker that the arena serves. */
export interface Route extends Omit<Target, 'origin'> {
  readonly worker: string;
}

const behind = (worker: string): Route => ({ worker, path: ONE_RULE_PATH + QUERY, isWeir: false });
export const weir = (path: string, worker = 'weir'): Route => ({ worker, path: path + QUERY, isWeir: true });

export const ROUTES: PerCandidate<Route> = {
  bare: behind('bare'),
  proxy: behind('proxy'),
  ping: behind('ping'),
  fairProxy: behind('fair-proxy'),
  fairPing: behind('fair-ping'),
  oneRule: weir(ONE_RULE_PATH),
  // Five rules have an isolate of their own: in a shared process, an isolate that is called twice as often is faster.
  fiveRules: weir(FIVE_RULES_PATH, 'weir-five-rules'),
  oneRegionOneRule: weir(ONE_RULE_PATH, 'weir-one-region'),
  upstashOne: behind('upstash-1'),
  upstashThree: behind('upstash-3'),
  upstashFive: behind('upstash-5'),
  upstashFiveParallel: behind('upstash-5-parallel'),
  fairUpstashOne: behind('fair-upstash-1'),
  fairUpstashFive: behind('fair-upstash-5'),
};

export const perCandidate = <T>(make: (name: Candidate) => T): PerCandidate<T> =>
  Object.fromEntries(CANDIDATES.map((name) => [name, make(name)])) as Record<Candidate, T>;

export const targetAt = (
  urls: Readonly<Record<string, string>>,
  { worker, path, isWeir }: Route,
): Target => ({
  origin: urls[worker] ?? '',
  path,
  isWeir,
});

/** The target of each candidate, given the URLs of the Workers. */
export const targetsAt = (urls: Readonly<Record<string, string>>): PerCandidate<Target> =>
  perCandidate((name) => targetAt(urls, ROUTES[name]));
