// All that was admitted in an episode, by limit.
import type { Check } from '../../src/core/check.ts';
import type { CheckResult } from '../../src/core/decision.ts';
import type { RuleCheck } from '../../src/core/plan.ts';
import type { SharesByRegion } from '../../src/core/rule.ts';
import { hasBurst } from '../../src/core/shares.ts';
import { termMs } from './bounds.ts';
import type { Failure } from './episode.ts';
import { type Admission, type Beyond, findBeyond, type Forgetting } from './ledger.ts';
import { REGIONS, type Scenario, START_MS } from './scenario.ts';
import type { Forgot } from './world.ts';

export interface Admitted {
  readonly region: number;
  readonly request: number;
  /** By the clock of the counter. */
  readonly nowMs: number;
}

export interface Ledgers {
  admit(result: CheckResult<RuleCheck>, admitted: Admitted): void;
  refund(request: number, check: Check, atMs: number): void;
  judge(forgot: readonly Forgot[]): Failure[];
}

interface Ledger {
  readonly check: RuleCheck;
  readonly admissions: Admission[];
}

const nameOf = ({ key, id }: Check) => `${key} ${id}`;

export function createLedgers(scenario: Scenario): Ledgers {
  const { skewMs, boundMs } = scenario;
  const ledgers = new Map<string, Ledger>();

  const judgeOne = ({ check, admissions }: Ledger, forgot: readonly Forgot[]): Failure[] => {
    const { algorithm, windowMs, key } = check;
    const forgettings = forgot
      .filter(({ keys }) => !keys || keys.includes(key))
      .map((one) => toForgetting(one, check, scenario));
    const beyond = findBeyond({ algorithm, windowMs, boundMs, forgettings }, admissions);
    return beyond ? [{ kind: 'over', said: sayBeyond(check, beyond), subject: key }] : [];
  };

  return {
    admit({ check }, { region, request, nowMs }) {
      const name = nameOf(check);
      const ledger = ledgers.get(name) ?? { check, admissions: [] };
      ledgers.set(name, ledger);
      // While a rule moves, a request may be counted in two places: it is one request all the same.
      if (ledger.admissions.at(-1)?.request === request) return;
      ledger.admissions.push({
        atMs: nowMs - (skewMs[region] ?? 0),
        region,
        units: check.cost,
        limit: check.full.limit,
        burst: hasBurst(check) ? check.full.extra : undefined,
        request,
      });
    },
    refund(request, check, atMs) {
      const admission = ledgers.get(nameOf(check))?.admissions.findLast((one) => one.request === request);
      if (admission) admission.refundedAtMs = atMs;
    },
    judge: (forgot) => [...ledgers.values()].flatMap((ledger) => judgeOne(ledger, forgot)),
  };
}

/** What it forgot may have been given to others for a term, and what they charged with it counts for a while. */
function toForgetting({ atMs, region }: Forgot, check: RuleCheck, scenario: Scenario): Forgetting {
  const { windowMs, full } = check;
  const holdMs = windowMs * (2 + Math.ceil(hasBurst(check) ? (full.extra ?? 0) / full.limit : 0));
  const part = partOf(region, check, scenario);
  return { atMs, region, part, untilMs: atMs + termMs(windowMs) + holdMs + scenario.boundMs };
}

/** The largest that the region has had. */
function partOf(region: number, { full, rule }: RuleCheck, { contents }: Scenario): number {
  const most = Math.max(full.limit, full.extra ?? 0);
  const parts = contents.map(({ content }) => {
    const shares: SharesByRegion = rule.shares ?? content.split.shares;
    const sum = Object.values(shares).reduce((so, share) => so + share, 0);
    return Math.ceil((most * (shares[REGIONS[region] ?? ''] ?? 0)) / sum);
  });
  return Math.max(...parts);
}

const sayBeyond = ({ key, rule, algorithm, windowMs }: RuleCheck, { admission, counted, allowed }: Beyond) =>
  `${algorithm} of ${rule.name} for ${key}: ${counted} units of ${allowed} in ${windowMs} ms, ` +
  `with request ${admission.request} at ${admission.atMs - START_MS} ms in ${REGIONS[admission.region]}`;
