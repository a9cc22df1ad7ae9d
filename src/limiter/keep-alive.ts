// When a client leaves, the runtime drops the rest of its request, except for work that was handed over to it. Handing
// over costs as much as reading five headers, so a request does it only if something would be lost.
import type { AfterResponse } from '../core/ports/after-response.ts';
import { needsFollowUp } from './ledger.ts';
import type { RegionCall } from './region-calls.ts';

/** Hands the work over. The request that waits for the work gets its errors. */
export const keepAlive = (
  work: Promise<unknown>,
  { afterResponse }: { readonly afterResponse: AfterResponse },
): void => afterResponse(work.then(nothing, nothing));

const nothing = () => {};

/**
 * Whether nothing is lost if the client leaves during the first call of its request. The region charges all or nothing,
 * and the charge stays, as if the client had left a moment later. But seats, turns and leases must be given back. And
 * the breaker must learn whether the region answers, even if no client waits for that.
 */
export const mayBeDropped = ({ region, checks }: RegionCall, nowMs: number): boolean =>
  region.breaker.isFresh(nowMs) && checks.every((check) => !check.want && !needsFollowUp(check));
