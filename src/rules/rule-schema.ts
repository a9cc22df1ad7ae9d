// Turns a row, from Postgres or from a stored snapshot, into a rule, or says what is wrong with it.
import * as z from 'zod';
import { ALGORITHM_IDS } from '../core/algorithms/registry.ts';
import { type Rule, SCOPES } from '../core/rule.ts';

const MAX_WINDOW_SECONDS = 366 * 86_400;

export const ruleSchema = z.object({
  id: z.string().min(1).max(64),
  name: z.string().min(1).max(128),
  resource: z.string().startsWith('/').max(1024),
  scope: z.enum(SCOPES),
  algorithm: z.enum(ALGORITHM_IDS),
  limit: z.int().positive(),
  windowSeconds: z.int().positive().max(MAX_WINDOW_SECONDS),
  priority: z.int(),
}) satisfies z.ZodType<Rule>;

export interface RejectedRow {
  readonly id: string;
  readonly problems: readonly string[];
}

/** A bad row never takes the others down: it is put aside with the reason. */
export function parseRules(rows: readonly unknown[]): { rules: Rule[]; rejected: RejectedRow[] } {
  const rules: Rule[] = [];
  const rejected: RejectedRow[] = [];
  for (const row of rows) {
    const parsed = ruleSchema.safeParse(row);
    if (parsed.success) rules.push(parsed.data);
    else rejected.push({ id: idOf(row), problems: parsed.error.issues.map(describe) });
  }
  return { rules, rejected };
}

const describe = (issue: z.core.$ZodIssue) => `${issue.path.join('.')}: ${issue.message}`;

function idOf(row: unknown): string {
  const id = row !== null && typeof row === 'object' && 'id' in row ? row.id : undefined;
  return typeof id === 'string' ? id : '(no id)';
}
