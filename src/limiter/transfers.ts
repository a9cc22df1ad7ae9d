// How regions ask one another for their parts. An idle region transfers its part of a counter to the region where the
// caller is (its owner). docs/regions.md explains how, and why that is exact. Weir asks after responses. A request waits
// for the answer only if it would otherwise be denied.

import { createBoundedCache } from '../core/bounded-cache.ts';
import { capacityOf, hasBurst } from '../core/counting/capacity.ts';
import type { Outcome, TransferReply } from '../core/counting/check.ts';
import { checkAt, type RuleCheck } from '../core/matching/plan.ts';
import type { AfterResponse } from '../core/ports/telemetry.ts';
import { isUsable, type Part, type Parts } from '../core/regions/parts.ts';
import { hasShare, holdMs, isMerged, isShared, type PlacedCheck, termMs } from '../core/regions/placement.ts';
import type { Moment } from './memory.ts';
import { createMerging } from './merging.ts';
import type { LimiterRegion, Regions } from './region.ts';

// The transfers between regions that this isolate knows. Old or incomplete knowledge is safe: the script of a region
// that has transferred its part refuses to count and names the owner.

export const MAX_COUNTERS = 10_000;

/** One region has transferred its part of a counter to another. Times are by the clock of this isolate. */
export interface Transfer {
  readonly from: string;
  readonly owner: string;
  /** Until then, the owner counts with this part. */
  readonly usableUntilMs: number;
  /** Until then, no region but the owner counts with this part. */
  readonly transferredUntilMs: number;
}

/** At the end of the term the isolate asks the region once more, because the owner may have renewed. */
interface KnownTransfer extends Transfer {
  readonly knownUntilMs: number;
}

function createKnownTransfers(now: () => number) {
  const known = createBoundedCache<readonly KnownTransfer[]>(MAX_COUNTERS);
  const transfersOf = (check: RuleCheck): readonly KnownTransfer[] =>
    (known.size > 0 ? known.get(nameOf(check), now()) : undefined) ?? NONE;

  /** The transfer of that region's part, if it has transferred it. */
  const transferFrom = (check: RuleCheck, region: string): Transfer | undefined =>
    transfersOf(check).find(({ from, knownUntilMs }) => from === region && knownUntilMs > now());

  const note = (check: RuleCheck, transfer: Transfer): void => {
    const { from, usableUntilMs, transferredUntilMs } = transfer;
    const knownUntilMs = usableUntilMs > now() ? usableUntilMs : transferredUntilMs;
    const others = transfersOf(check).filter((one) => one.from !== from && one.knownUntilMs > now());
    const all = [...others, { ...transfer, knownUntilMs }];
    known.set(nameOf(check), all, Math.max(...all.map((one) => one.knownUntilMs)));
  };

  /** The region's own part, and the parts of others that it may use. */
  const partAt = ({ check, parts }: PlacedCheck, region: string, transfers: readonly Transfer[]) =>
    transfers
      .filter((one) => one.owner === region && one.usableUntilMs > now() && covers(one, check, parts))
      .flatMap(({ from }) => parts.get(from) ?? [])
      .reduce<Part | undefined>(
        (part, transferred) => (part ? together(part, transferred, hasBurst(check)) : transferred),
        parts.get(region),
      );

  return {
    note,
    transferFrom,

    /** Notes that a region says it has transferred the counter. */
    learn(check: RuleCheck, from: string, outcome: Outcome, { askedAtMs, answeredAtMs }: Moment): void {
      const { name: owner = '', usableMs = 0 } = outcome.transferredTo ?? {};
      const transferredUntilMs = askedAtMs + outcome.resetAtMs - answeredAtMs;
      note(check, { from, owner, usableUntilMs: askedAtMs + usableMs, transferredUntilMs });
    },

    /** The check with the region's own part and the parts transferred to it. Undefined if the region does not count it. */
    checkAt(placed: PlacedCheck, region: string): RuleCheck | undefined {
      const { check, at, parts } = placed;
      if (at !== undefined && at !== region) return undefined;
      const transfers = transfersOf(check);
      if (transfers.length > 0 && transferFrom(check, region)) return undefined;
      const part = transfers.length > 0 ? partAt(placed, region, transfers) : parts.get(region);
      return part && isUsable(fitting(check), part) ? checkAt(region, check, part) : undefined;
    },

    /** The regions that may count the check, in the order of asking. */
    candidates({ check }: PlacedCheck, regions: Regions): readonly LimiterRegion[] {
      const transfer = transferFrom(check, regions[0].name);
      const owner = transfer && regions.find(({ name }) => name === transfer.owner);
      return owner ? [owner, ...regions.filter((region) => region !== owner)] : regions;
    },

    /**
     * The region that should count the check: the only one that may, or the owner that others name. If each region has a
     * part of its own, the first of them. All isolates have the same order of parts.
     */
    ownerOf({ check, at, parts }: PlacedCheck): string {
      const names = [...parts.keys()];
      const transfers = names.flatMap((region) => transferFrom(check, region) ?? []);
      return at ?? transfers[0]?.owner ?? names[0] ?? '';
    },

    /** If every region has transferred its part: the ms until the first of them counts again. */
    lockedMs({ check, parts }: PlacedCheck): number | undefined {
      const locked = [...parts.keys()].map((region) => transferFrom(check, region));
      const endsAtMs = Math.min(...locked.map((transfer) => transfer?.transferredUntilMs ?? 0));
      return locked.length > 0 && endsAtMs > now() ? endsAtMs - now() : undefined;
    },
  };
}

const NONE: readonly KnownTransfer[] = [];

/** A cost above the whole limit never fits, so any region can deny the check, however small its part is. */
const fitting = (check: RuleCheck): RuleCheck =>
  check.cost > capacityOf(check) ? { ...check, cost: 1 } : check;

/** The name of a counter, the same for all of its parts. */
export const nameOf = ({ id, key }: RuleCheck) => `${id} ${key}`;

/** The check with its whole limit, for code that does not care about parts. */
export const wholeOf = (check: RuleCheck): RuleCheck => ({ ...check, ...check.full, region: undefined });

/** If `extra` is no burst, it is the same in all regions. */
const together = (a: Part, b: Part, addsExtra: boolean): Part => ({
  limit: a.limit + b.limit,
  extra: addsExtra && a.extra !== undefined ? a.extra + (b.extra ?? 0) : a.extra,
});

/**
 * Whether the part stays locked long enough after the term for the owner's charges to stop counting. It may not if the
 * rules drained faster when the part was transferred.
 */
export const covers = (
  { transferredUntilMs, usableUntilMs }: Transfer,
  check: RuleCheck,
  parts: Parts,
): boolean => transferredUntilMs - usableUntilMs >= holdMs(check, parts);

/** Calls in flight at once, for each isolate. Beyond that, a later request asks. */
const MAX_ASKED = 20;
/** No request waits for this call, so it may take long. */
const ASK_MS = 5_000;
/** A owner renews a transfer when this part of the term is left. */
const RENEW_AT = 1 / 3;

/** A request of this isolate that was counted. */
export interface Use {
  readonly placed: PlacedCheck;
  /** The region that counted it, and the check and outcome of its last call. */
  readonly region: LimiterRegion;
  readonly counted: RuleCheck;
  readonly outcome: Outcome;
}

/** The owner should get the part of `from`. */
export interface TransferRequest {
  readonly placed: PlacedCheck;
  readonly from: LimiterRegion;
  readonly owner: string;
}

/** One region is asked for its parts of some counters. */
export interface TransferCall {
  readonly from: LimiterRegion;
  readonly owner: string;
  readonly placed: readonly PlacedCheck[];
  /** Units that the owner has charged itself with, in place of the other region's: see merging.ts. */
  readonly charged?: { readonly units: number; readonly atMs: number } | undefined;
}

export type Transfers = ReturnType<typeof createTransfers>;

export function createTransfers(now: () => number) {
  const known = createKnownTransfers(now);
  /** Regions that must not be asked again yet. */
  const asked = createBoundedCache<'asking' | 'refused'>(MAX_COUNTERS);
  const forwardedUnits = createBoundedCache<number>(MAX_COUNTERS);
  let inFlight = 0;

  /** Counts terms from the moment of asking. The other region starts later, so no term ends later here than there. */
  const ask = async (
    { from, owner, placed, charged }: TransferCall,
    signal: AbortSignal,
  ): Promise<readonly TransferReply[]> => {
    const askedAtMs = now();
    const note = (state: 'asking' | 'refused', { check }: PlacedCheck, ms: number) =>
      asked.set(askName(from.name, check), state, askedAtMs + ms);
    for (const one of placed) note('asking', one, ASK_MS);
    const checks = placed.map(({ check, parts }) => ({
      ...wholeOf(check),
      transfer: { owner, termMs: termMs(check), holdMs: holdMs(check, parts), ownerCharge: charged },
    }));
    const { nowMs, outcomes } = await from.store.transfer({ checks }, signal).catch((error) => {
      for (const one of placed) note('refused', one, ASK_MS);
      throw error;
    });
    from.distance.note(now() - askedAtMs);
    for (const [i, one] of placed.entries()) {
      const reply = outcomes[i];
      if (!reply) continue;
      const { check, parts } = one;
      if (reply.kind === 'transferred') {
        note('refused', one, 0);
        const transferredUntilMs = askedAtMs + reply.untilMs - nowMs;
        const usableUntilMs = askedAtMs + termMs(check);
        known.note(check, { from: from.name, owner, usableUntilMs, transferredUntilMs });
        continue;
      }
      const { retryAfterMs } = reply;
      // If the owner may merge the parts, it need not wait until the other region is idle.
      const waitMs = isMerged(check, parts) ? Math.min(retryAfterMs, check.windowMs) : retryAfterMs;
      note('refused', one, waitMs);
    }
    return outcomes;
  };

  const isRefused = (from: string, check: RuleCheck) => asked.get(askName(from, check), now()) === 'refused';
  const merging = createMerging({ ask, isRefused, transferFrom: known.transferFrom });

  /**
   * Does the work after the response. If the work fails, a later request tries again. The breaker does not count the
   * failure, because no request waits for this call.
   */
  const later = (region: LimiterRegion, work: () => Promise<unknown>, afterResponse: AfterResponse) => {
    if (inFlight >= MAX_ASKED || region.breaker.state(now()) !== 'closed') return;
    inFlight += 1;
    const end = () => {
      inFlight -= 1;
    };
    afterResponse(work().catch(region.watch.note).finally(end));
  };

  /** Whether the owner lacks the part, or has it for at most `ms` more. */
  const isLacking = ({ placed, owner, from }: TransferRequest, ms: number): boolean => {
    const { check, parts, split } = placed;
    // A region without a share is being removed. It gets no parts.
    const mayHave = isShared(placed) && (parts.has(owner) || hasShare(check.rule, split, owner));
    if (!mayHave || from.name === owner || !parts.has(from.name)) return false;
    if (isRefused(from.name, check)) return false;
    const transfer = known.transferFrom(check, from.name);
    if (!transfer) return true;
    return (
      transfer.owner === owner && (!covers(transfer, check, parts) || transfer.usableUntilMs - now() < ms)
    );
  };

  /** A region that forwards many requests to the owner wants its part back, unless split parts would lose too much. */
  const welcome = ({ placed, region }: Use, [own]: Regions, afterResponse: AfterResponse) => {
    const { check, parts } = placed;
    const count = (forwardedUnits.get(nameOf(check), now()) ?? 0) + check.cost * own.census.count();
    forwardedUnits.set(nameOf(check), count, now() + check.windowMs);
    const isMany = count >= (parts.get(own.name)?.limit ?? Number.POSITIVE_INFINITY);
    const name = `back ${askName(own.name, check)}`;
    if (!isMany || region === own || isMerged(check, parts) || asked.get(name, now())) return;
    asked.set(name, 'asking', now() + termMs(check));
    const checks = [wholeOf(check)];
    later(own, () => own.store.recall({ checks }, AbortSignal.timeout(ASK_MS)), afterResponse);
  };

  const partRequestsOf = (use: Use, moved: Transfer | undefined, regions: Regions): TransferRequest[] => {
    const { placed } = use;
    const [own] = regions;
    const owner = placed.at ?? moved?.owner ?? own.name;
    if (!isStrained(use, owner)) return [];
    // Forwarded requests renew transfers for their owner, because the owner may have no requests of its own.
    const isWanted = (from: LimiterRegion) =>
      !moved || (from !== own && known.transferFrom(placed.check, from.name) !== undefined);
    return regions
      .filter((from) => isWanted(from) && !asked.get(askName(from.name, placed.check), now()))
      .map((from) => ({ placed, from, owner }))
      .filter((partRequest) => isLacking(partRequest, termMs(placed.check) * RENEW_AT));
  };

  const askAll = async (some: TransferCall, regions: Regions) => {
    const { from, owner, placed } = some;
    const replies = await ask(some, AbortSignal.timeout(ASK_MS));
    // Forwarded requests renew transfers for their owner, but only the owner merges.
    if (regions[0].name !== owner) return;
    for (const [i, reply] of replies.entries())
      if (placed[i]) await merging.merge({ placed: placed[i], from, reply, regions });
  };

  return {
    ...known,
    /** Whether the owner lacks the part of `from` and should ask for it: `from` has not refused lately. */
    isMissing: (placed: PlacedCheck, owner: string, from: LimiterRegion): boolean =>
      isLacking({ placed, owner, from }, 0),
    ask,
    /** After each request: asks for parts where a subject uses much of its region's part, and renews transfers. */
    follow(uses: readonly Use[], regions: Regions, afterResponse: AfterResponse): void {
      const partRequests: TransferRequest[] = [];
      for (const use of uses) {
        if (!isShared(use.placed)) continue;
        const moved = known.transferFrom(use.placed.check, regions[0].name);
        if (moved) welcome(use, regions, afterResponse);
        partRequests.push(...partRequestsOf(use, moved, regions));
      }
      if (partRequests.length > 0)
        for (const some of transferCallsOf(partRequests))
          later(some.from, () => askAll(some, regions), afterResponse);
    },
  };
}

/** One call for all counters that an owner wants from a region. */
export const transferCallsOf = (partRequests: readonly TransferRequest[]): TransferCall[] =>
  [...Map.groupBy(partRequests, ({ from, owner }) => `${from.name} ${owner}`).values()].flatMap(
    ([first, ...others]) =>
      first ? [{ ...first, placed: [first, ...others].map(({ placed }) => placed) }] : [],
  );

/**
 * Whether the owner's own part is too small: it has none, another region counted the request or the owner denied it, or
 * half of the part is used. A single request that uses half does not count, unless the part holds only one.
 */
function isStrained({ placed, region, counted, outcome }: Use, owner: string): boolean {
  const own = placed.parts.get(owner);
  if (!own || region.name !== owner || !outcome.allowed) return true;
  const { cost } = placed.check;
  const most = capacityOf({ algorithm: counted.algorithm, limit: own.limit, extra: own.extra });
  const used = capacityOf(counted) - outcome.remaining;
  return used * 2 >= most && (used > cost || most <= cost);
}

const askName = (region: string, check: RuleCheck) => `${region} ${nameOf(check)}`;
