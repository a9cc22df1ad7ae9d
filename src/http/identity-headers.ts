// Headers that tell the origin who calls. The proxy removes headers of these names that a client sends.
import type { Caller } from '../core/matching/caller.ts';

/** `tier`: the caller's own, or the default one. */
export function identityHeaders(
  caller: Caller | undefined,
  tier: string | undefined,
): Record<string, string> {
  const headers: Record<string, string> = {};
  if (caller?.userId !== undefined) headers['X-Weir-User'] = toValue(caller.userId);
  if (caller?.apiKeyId !== undefined) headers['X-Weir-Key-Id'] = toValue(caller.apiKeyId);
  if (caller?.tenantId !== undefined) headers['X-Weir-Tenant'] = toValue(caller.tenantId);
  if (tier !== undefined) headers['X-Weir-Tier'] = toValue(tier);
  return headers;
}

/** Percent-encodes characters that a header cannot hold, and the percent sign. */
const toValue = (text: string) =>
  text.replace(/[^\x21-\x24\x26-\x7e]/gu, (character) => encodeURIComponent(character));
