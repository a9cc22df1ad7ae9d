// Headers of the origin's answer, in one look at each: those of its connection stay there, what it says about limits is
// kept apart from what Weir says, and the one that tells the real cost is for Weir alone.
import { HOP_BY_HOP, namesIn } from './proxy/headers.ts';

const RATE_LIMIT = /^(x-ratelimit-.+|ratelimit|ratelimit-.+)$/;
const COST = /^\d{1,12}$/;

export type OriginRateLimitHeaders = 'rename' | 'drop' | 'keep';

export interface OriginHeaderPolicy {
  /** `rename`: `X-RateLimit-Limit` becomes `X-Origin-RateLimit-Limit`, `RateLimit` becomes `X-Origin-RateLimit`. */
  readonly rateLimitHeaders: OriginRateLimitHeaders;
  readonly costHeader: string;
}

/** Takes out what is not for the client. Gives the real cost; undefined if the origin tells none that can be read. */
export function takeOriginHeaders(
  headers: Headers,
  { rateLimitHeaders, costHeader }: OriginHeaderPolicy,
): number | undefined {
  const costName = costHeader.toLowerCase();
  const taken: [name: string, value: string][] = [];
  let isNamed = (_: string) => false;
  let cost: number | undefined;
  for (const entry of headers) {
    const [name, value] = entry;
    const isOwnLimit = rateLimitHeaders !== 'keep' && RATE_LIMIT.test(name);
    if (name === costName || HOP_BY_HOP.has(name) || isOwnLimit) taken.push(entry);
    if (name === 'connection') isNamed = namesIn(value);
    if (name === costName && COST.test(value)) cost = Number(value);
  }
  for (const [name, value] of taken) {
    headers.delete(name);
    if (rateLimitHeaders === 'rename' && RATE_LIMIT.test(name))
      headers.append(`x-origin-${name.replace(/^x-/, '')}`, value);
  }
  if (taken.some(([name]) => name === 'connection'))
    for (const name of [...headers.keys()]) if (isNamed(name)) headers.delete(name);
  return cost;
}
