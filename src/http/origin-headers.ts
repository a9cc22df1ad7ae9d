// Headers of the origin's answer that are about limits: its own are kept apart from ours, and the one that tells
// the real cost is for us alone.

const RATE_LIMIT = /^(x-ratelimit-.+|ratelimit|ratelimit-.+)$/;
const COST = /^\d{1,12}$/;

export type OriginRateLimitHeaders = 'rename' | 'drop' | 'keep';

/** `X-RateLimit-Limit` becomes `X-Origin-RateLimit-Limit`, `RateLimit` becomes `X-Origin-RateLimit`. */
export function keepApart(headers: Headers, mode: OriginRateLimitHeaders): void {
  if (mode === 'keep') return;
  const own: [name: string, value: string][] = [];
  for (const entry of headers) if (RATE_LIMIT.test(entry[0])) own.push(entry);
  for (const [name, value] of own) {
    headers.delete(name);
    if (mode === 'rename') headers.append(`x-origin-${name.replace(/^x-/, '')}`, value);
  }
}

/** Takes the real cost out of the headers; undefined if the origin does not tell one that can be read. */
export function takeCost(headers: Headers, name: string): number | undefined {
  const text = headers.get(name);
  headers.delete(name);
  return text !== null && COST.test(text) ? Number(text) : undefined;
}
