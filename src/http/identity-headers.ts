// What the origin is told about the caller. Nothing that a client sends under these names passes.
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

/** What a header cannot hold is percent-encoded, and so is the percent sign. */
const toValue = (text: string) =>
  text.replace(/[^\x21-\x24\x26-\x7e]/gu, (character) => encodeURIComponent(character));
