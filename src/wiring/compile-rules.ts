// Checks rules in code with the schema of the admin route and compiles them. It is loaded with the first request of an
// isolate that has such rules.
import type * as z from 'zod';
import { fieldErrors } from '../admin/problems.ts';
import { ruleBodies, tierBodies } from '../admin/schemas.ts';
import { parseRules, type RejectedRow, type ruleFields } from '../authoring/rule-schema.ts';
import type { RulesInCode, TierInCode, WrittenRule } from '../authoring/written-rule.ts';
import { ConfigError } from '../config/config.ts';
import { digest, toHex } from '../core/digest.ts';
import { PEOPLE_DEFAULTS } from '../core/matching/flat-rule.ts';
import { compileSnapshot, type Snapshot, withCounterIds } from '../core/matching/snapshot.ts';
import type { FieldError } from '../core/shape.ts';
import { assemble, type RuleOffRow } from '../rules/publishing/content.ts';
import type { tiers as tiersTable } from '../rules/tables/tables.ts';

/** Fields that the schema knows and the type does not: there must be none. */
type Untyped = Exclude<keyof z.input<typeof ruleFields>, keyof WrittenRule>;
const NOTHING_UNTYPED: [Untyped] extends [never] ? true : Untyped = true;

const VERSION_LENGTH = 16;

/** Throws a ConfigError that names each rule and field that is wrong. */
export async function compileCode({ rules, tiers = [] }: RulesInCode, nowMs: number): Promise<Snapshot> {
  const errors: FieldError[] = [];
  const named = rules.map((rule) => ({ ...rule, name: nameOf(rule) }));
  const rows = named.map((rule, i) => readRow(rule, `rules/${i}`, errors));
  const tierRows = tiers.map((tier, i) => readTier(tier, `tiers/${i}`, errors));
  errors.push(...repeated(named));
  if (errors.length > 0) throw new ConfigError(errors);
  const enabled = rows.filter((row) => row['enabled'] !== false);
  const off = rows.filter((row) => row['enabled'] === false) as unknown as readonly RuleOffRow[];
  const parsed = parseRules(enabled);
  const published = await withCounterIds(parsed.rules);
  const { content, rejected } = assemble(published, [tierRows, [], [], [], [], [], off], { nowMs });
  const bad = [...parsed.rejected, ...rejected];
  if (bad.length > 0) throw new ConfigError(bad.flatMap((row) => describe(row, named)));
  return compileSnapshot(await versionOf({ rules, tiers }), { ...content, split: undefined });
}

/** Counters belong to a name. The name of an unnamed rule comes from what it limits, not from its position. */
const nameOf = ({ name, scope, resource, resources = [], methods = [] }: WrittenRule): string =>
  name ??
  [scope ?? PEOPLE_DEFAULTS.scope, ...methods, resource ?? resources.join(' ')].join(' ').slice(0, 128);

type Row = Record<string, unknown>;

function readRow(rule: WrittenRule & { readonly name: string }, at: string, errors: FieldError[]): Row {
  const read = ruleBodies.create.safeParse(rule);
  if (!read.success) errors.push(...errorsOf(read.error, rule, at));
  const ordinal = Number(/\d+/.exec(at)?.[0]);
  return { ...read.data, id: rule.name, ordinal };
}

function readTier(tier: TierInCode, at: string, errors: FieldError[]): typeof tiersTable.$inferSelect {
  const read = tierBodies.create.safeParse(tier);
  if (!read.success) errors.push(...errorsOf(read.error, tier, at));
  const { name, limits, isDefault = false } = tier;
  const moment = new Date(0);
  return {
    name,
    limits,
    isDefault,
    displayName: '',
    priceCents: 0,
    revision: 0,
    createdAt: moment,
    updatedAt: moment,
  };
}

const errorsOf = (error: z.core.$ZodError, input: unknown, at: string): FieldError[] =>
  fieldErrors(error, input).map(({ pointer, detail }) => ({ pointer: at + pointer.slice(1), detail }));

function* repeated(rules: readonly { readonly name: string }[]): Iterable<FieldError> {
  const names = rules.map(({ name }) => name);
  for (const [i, name] of names.entries())
    if (names.indexOf(name) < i)
      yield {
        pointer: `rules/${i}/name`,
        detail: `is that of rules/${names.indexOf(name)} too; give them names of their own`,
      };
}

/** A row that is valid alone, but not with the others. A name that no rule has is that of a tier. */
function describe(
  { name, problems }: RejectedRow,
  rules: readonly { readonly name: string }[],
): FieldError[] {
  const place = rules.findIndex((rule) => rule.name === name);
  const pointer = place < 0 ? `tiers/${name}` : `rules/${place}`;
  return problems.map((detail) => ({ pointer, detail }));
}

const versionOf = async (said: RulesInCode) =>
  toHex(await digest('SHA-256', JSON.stringify([said, NOTHING_UNTYPED]))).slice(0, VERSION_LENGTH);
