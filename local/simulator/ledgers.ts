// All admissions of an episode, by limit.

import { hasBurst } from '../../src/core/counting/capacity.ts';
import type { Check } from '../../src/core/counting/check.ts';
import { isStandIn, type RuleCheck } from '../../src/core/matching/plan.ts';
import type { SharesByRegion } from '../../src/core/matching/rule.ts';
import { partsOf } from '../../src/core/regions/parts.ts';
import { termMs } from '../../src/core/regions/placement.ts';
import { dateRequests } from './dates.ts';
import type { Failure } from './episode.ts';
import { type Admission, type Beyond, type Forgetting, findBeyond } from './ledger.ts';
import { REGIONS, type Scenario, START_MS } from './scenario.ts';
import type { Forgot } from './world.ts';

export interface Admitted {
  readonly region: number;
  readonly request: number;
  /** The time by the clock of the counter. */
  readonly nowMs: number;
}

export interface Refunded {
  readonly check: Check;
  readonly region: number;
  readonly atMs: number;
}

export interface Touched {
  readonly region: number;
  /** The true time. */
  readonly atMs: number;
}

export interface Ledgers {
  admit(check: RuleCheck, admitted: Admitted): void;
  /**
   * An isolate with outdated rules has charged a bucket. It gives the charge back, but the bucket drains at the pace of
   * the old limit until the next charge: docs/regions.md states that bound.
   */
  touch(check: RuleCheck, touched: Touched): void;
  refund(request: number, refunded: Refunded): void;
  judge(forgot: readonly Forgot[]): Failure[];
}

interface Ledger {
  readonly check: RuleCheck;
  /** The charges of each request, by its number. While a rule moves, a request has several. */
  readonly charges: Map<number, Admission[]>;
}

/** All regions share a limit. But each region that stands in for another may admit the limit once more. */
const nameOf = (check: Check, region: number) =>
  `${check.key} ${check.id}${isStandIn(check) ? ` ${region}` : ''}`;

export function createLedgers(scenario: Scenario): Ledgers {
  const { skewMs, boundMs } = scenario;
  const ledgers = new Map<string, Ledger>();
  let touches = 0;

  const note = (check: RuleCheck, charge: Omit<Admission, 'limit' | 'burst'>) => {
    const name = nameOf(check, charge.region);
    const ledger = ledgers.get(name) ?? { check, charges: new Map() };
    ledgers.set(name, ledger);
    const { limit, extra } = check.full;
    const noted: Admission = { ...charge, limit, burst: hasBurst(check) ? extra : undefined };
    ledger.charges.set(charge.request, [...(ledger.charges.get(charge.request) ?? []), noted]);
  };

  const judgeOne = ({ check, charges }: Ledger, forgot: readonly Forgot[]): Failure[] => {
    const { algorithm, windowMs, key } = check;
    const isAbout = (region: number) => !isStandIn(check) || REGIONS[region] === check.region;
    const forgettings = forgot
      .filter(({ keys, region }) => (!keys || keys.includes(key)) && isAbout(region))
      .map((one) => toForgetting(one, check, scenario));
    const admissions = dateRequests([...charges.values()]);
    const beyond = findBeyond({ algorithm, windowMs, boundMs, forgettings }, admissions);
    return beyond ? [{ kind: 'over', said: sayBeyond(check, beyond), subject: key }] : [];
  };

  return {
    admit: (check, { region, request, nowMs }) =>
      note(check, { atMs: nowMs - (skewMs[region] ?? 0), region, units: check.cost, request }),
    // No request has a number below 0.
    touch(check, touched) {
      touches += 1;
      note(check, { ...touched, units: 0, request: -touches });
    },
    refund(request, { check, region, atMs }) {
      // As soon as one region has given the units back, the request counts no more.
      for (const charge of ledgers.get(nameOf(check, region))?.charges.get(request) ?? [])
        charge.refundedAtMs = Math.min(atMs, charge.refundedAtMs ?? atMs);
    },
    judge: (forgot) => [...ledgers.values()].flatMap((ledger) => judgeOne(ledger, forgot)),
  };
}

/** The forgotten part may have been transferred for a term, and charges made with it count for a while. */
function toForgetting({ atMs, region }: Forgot, check: RuleCheck, scenario: Scenario): Forgetting {
  const versions = versionsOf(check, scenario);
  const drains = versions.map(({ limit, burst }) => (hasBurst(check) ? Math.ceil(burst / limit) : 0));
  const holdMs = check.windowMs * (2 + Math.max(...drains));
  const part = Math.max(...versions.map((version) => partOf(region, check, version, isStandIn(check))));
  return { atMs, region, part, untilMs: atMs + termMs(check) + holdMs + scenario.boundMs };
}

/** The limit of a rule, and how it is split, in one content of the episode. */
interface Version {
  readonly limit: number;
  readonly burst: number;
  readonly shares: SharesByRegion;
}

/** A rule may have had a larger limit when a region forgot its part than the check that was noted first. */
function versionsOf({ full, rule }: RuleCheck, { contents }: Scenario): Version[] {
  return contents.map(({ content }) => {
    const rules = content.sets.flatMap((set) => set.rules);
    const { limit, burst, shares } = rules.find(({ id }) => id === rule.id) ?? rule;
    return { limit: limit ?? full.limit, burst: burst ?? 0, shares: shares ?? content.shares };
  });
}

/** A region that stands in for another has the whole limit. */
function partOf(
  region: number,
  { algorithm, cost }: RuleCheck,
  { limit, burst, shares }: Version,
  hasAll: boolean,
): number {
  if (hasAll) return Math.max(limit, burst);
  const weights = REGIONS.map((name) => ({ name, share: shares[name] ?? 0 }));
  const parts = partsOf({ algorithm, limit, extra: burst || undefined, cost }, weights);
  const part = parts.get(REGIONS[region] ?? '');
  return Math.max(part?.limit ?? 0, part?.extra ?? 0);
}

const sayBeyond = ({ key, rule, algorithm, windowMs }: RuleCheck, { admission, counted, allowed }: Beyond) =>
  `${algorithm} of ${rule.name} for ${key}: ${counted} units of ${allowed} in ${windowMs} ms, ` +
  `with request ${admission.request} at ${admission.atMs - START_MS} ms in ${REGIONS[admission.region]}`;
