// What the origin is told about the caller. Nothing that a client sends under these names passes.
import type { Caller } from '../core/matching/caller.ts';

/** `tier`: the caller's own, or the default one. */
export function identityHeaders(
  caller: Caller | undefined,
  tier: string | undefined,
): Record<string, string> {
  const known = {
    'X-Weir-User': caller?.userId,
    'X-Weir-Key-Id': caller?.apiKeyId,
    'X-Weir-Tenant': caller?.tenantId,
    'X-Weir-Tier': tier,
  };
  return Object.fromEntries(
    Object.entries(known).flatMap(([name, value]) => (value === undefined ? [] : [[name, toValue(value)]])),
  );
}

/** What a header cannot hold is percent-encoded, and so is the percent sign. */
const toValue = (text: string) =>
  text.replace(/[^\x21-\x24\x26-\x7e]/gu, (character) => encodeURIComponent(character));
