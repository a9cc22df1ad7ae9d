// A rule and a tier as people write them in code. `POST /_weir/admin/rules` and `/tiers` take the same.
import type { FlatRule, WrittenLimit } from '../core/matching/flat-rule.ts';
import type { WrittenTierLimits } from '../core/matching/rule.ts';

/** Fields that only Weir writes, or that people write in another form. */
type NotWritten =
  | 'id'
  | 'ordinal'
  | 'limit'
  | 'limits'
  | 'counterId'
  | 'counterIds'
  | 'validFromMs'
  | 'validUntilMs';

export type WrittenRule = Partial<Omit<FlatRule, NotWritten>> & {
  /** A text such as `20 / minute` or `100 / 15 minutes` also names `windowSeconds`, which is then left out. */
  readonly limit?: number | string | null;
  readonly limits?: readonly (Omit<WrittenLimit, 'limit'> & { readonly limit?: number | string })[];
  /** The moment when the rule begins to apply, such as `2030-01-31T12:00:00Z`; null: it applies from the start. */
  readonly validFrom?: string | null;
  /** The moment when the rule ends; null: it never ends. */
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
