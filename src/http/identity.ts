// Who sends a request: the address that Cloudflare names, and the API key if it is a known one. What cannot be
// verified is nobody's: it counts against the IP.
import type { Caller, CallerDirectory } from '../core/caller.ts';
import { countedIp } from '../core/ip.ts';

/** Without an address all callers share one bucket, rather than escape. */
const UNKNOWN = { ip: 'unknown', address: 'unknown' };

export async function identify(
  request: Request,
  callers: CallerDirectory,
  afterResponse: (work: Promise<unknown>) => void,
): Promise<Caller> {
  const from = countedIp(request.headers.get('CF-Connecting-IP') ?? '') ?? UNKNOWN;
  const key = request.headers.get('X-API-Key');
  if (key === null) return from;
  const { userId, apiKeyId, tenantId, tier } = (await callers.ofApiKey(key, afterResponse)) ?? {};
  return { ...from, userId, apiKeyId, tenantId, tier };
}
