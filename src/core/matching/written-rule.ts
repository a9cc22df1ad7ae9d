// A rule and a tier as people write them in code. `POST /_weir/admin/rules` and `/tiers` take the same.
import type { Rule, WrittenTierLimits } from './rule.ts';

/** What only Weir writes, or what people write in another form. */
type NotWritten = 'id' | 'ordinal' | 'validFromMs' | 'validUntilMs';

export type WrittenRule = Partial<Omit<Rule, NotWritten>> &
  Pick<Rule, 'scope'> & {
    /** From then on it applies, as `2030-01-31T12:00:00Z`; null: from the start. */
    readonly validFrom?: string | null;
    /** From then on it no longer applies; null: it never ends. */
    readonly validUntil?: string | null;
    readonly enabled?: boolean;
  };

export interface TierInCode {
  readonly name: string;
  readonly limits: WrittenTierLimits;
  /** The tier of callers without a known tier. */
  readonly isDefault?: boolean;
}

export interface RulesInCode {
  readonly rules: readonly WrittenRule[];
  readonly tiers?: readonly TierInCode[] | undefined;
}
