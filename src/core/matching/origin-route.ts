// Routes: which origin a request goes to, by its host and the beginning of its path.
import { matchSegment } from './match-segment.ts';

export interface OriginRoute {
  readonly id: string;
  readonly name: string;
  /** `api.example.com`, `*.example.com` (any name below it), or `*`. */
  readonly host: string;
  /** In its canonical form: `/`, or segments without a slash at the end. */
  readonly prefix: string;
  readonly origin: string;
  /** The part of the path that the origin does not get: `prefix`, or its beginning. */
  readonly stripPrefix: string | null;
  /** How long the origin's headers may take; null: as configured. */
  readonly timeoutMs: number | null;
  /** The Host header that the origin gets; null: the host of its URL. */
  readonly hostHeader: string | null;
  /** Added to each request. */
  readonly headers: Readonly<Record<string, string>>;
}

export const ROUTE_DEFAULTS = {
  host: '*',
  prefix: '/',
  stripPrefix: null,
  timeoutMs: null,
  hostHeader: null,
  headers: {},
} as const satisfies Partial<OriginRoute>;

export const EVERY_HOST = '*';
/** `path` without its first segments, as many as `stripPrefix` has. Segments that the matcher ignores do not count. */
export function strip(path: string, stripPrefix: string): string {
  let left = stripPrefix.split('/').filter((segment) => segment !== '').length;
  let end = 0;
  while (left > 0 && end < path.length) {
    const next = path.indexOf('/', end + 1);
    const segmentEnd = next === -1 ? path.length : next;
    const seen = matchSegment(path.slice(end + 1, segmentEnd));
    if (seen.ok && seen.text !== '') left -= 1;
    end = segmentEnd;
  }
  return path.slice(end) || '/';
}
