// Turns a row, from Postgres or from a stored snapshot, into a rule, or says what is wrong with it.
import * as z from 'zod';
import { ALGORITHM_IDS } from '../core/algorithms/registry.ts';
import { problemOf } from '../core/check.ts';
import { resourceProblem } from '../core/resource.ts';
import { type Rule, SCOPES } from '../core/rule.ts';

const MAX_WINDOW_SECONDS = 366 * 86_400;

const ruleFields = z.object({
  id: z.string().min(1).max(64),
  name: z.string().min(1).max(128),
  resource: z.string().max(1024),
  scope: z.enum(SCOPES),
  algorithm: z.enum(ALGORITHM_IDS),
  limit: z.int().positive(),
  windowSeconds: z.int().positive().max(MAX_WINDOW_SECONDS),
  priority: z.int(),
});

/** What could never match, or what the counters would refuse, is refused here, long before a request comes. */
export const ruleSchema = ruleFields.superRefine((rule, context) => {
  const { algorithm, limit, windowSeconds } = rule;
  const wrongPath = resourceProblem(rule.resource);
  if (wrongPath) context.addIssue({ code: 'custom', path: ['resource'], message: wrongPath });
  if (algorithm === 'concurrency') {
    context.addIssue({
      code: 'custom',
      path: ['algorithm'],
      message: 'concurrency is not yet enforced for requests',
    });
    return;
  }
  const problem = problemOf({ key: '', id: '', algorithm, limit, windowMs: windowSeconds * 1000, cost: 1 });
  if (problem) context.addIssue({ code: 'custom', path: ['limit'], message: problem });
}) satisfies z.ZodType<Rule>;

export interface RejectedRow {
  readonly id: string;
  readonly name: string;
  readonly problems: readonly string[];
}

/** A bad row never takes the others down: it is put aside with the reason. */
export function parseRules(rows: readonly unknown[]): { rules: Rule[]; rejected: RejectedRow[] } {
  const rules: Rule[] = [];
  const rejected: RejectedRow[] = [];
  for (const row of rows) {
    const parsed = ruleSchema.safeParse(row);
    if (parsed.success) rules.push(parsed.data);
    else
      rejected.push({
        id: textOf(row, 'id'),
        name: textOf(row, 'name'),
        problems: parsed.error.issues.map(describe),
      });
  }
  return { rules, rejected };
}

const describe = (issue: z.core.$ZodIssue) => `${issue.path.join('.')}: ${issue.message}`;

function textOf(row: unknown, field: string): string {
  const value = row !== null && typeof row === 'object' ? (row as Record<string, unknown>)[field] : undefined;
  return typeof value === 'string' ? value : `(no ${field})`;
}
