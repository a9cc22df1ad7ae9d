// A limit as people say it, such as "100 / 15 minutes". Schemas of what people write turn it into `limit` and
// `windowSeconds`, and nothing behind them knows it.
import * as z from 'zod';
import { LARGEST_LIMIT, LONGEST_WINDOW_SECONDS } from '../core/matching/rule.ts';

const RATE = /^(\d+)(?: *\/ *| per )(?:(\d+) *)?([a-z]+?)s?$/;
const SECONDS = new Map([
  ['second', 1],
  ['minute', 60],
  ['hour', 3_600],
  ['day', 86_400],
]);
const FORM = 'must be a whole number, or a text such as "20 / minute" or "100 / 15 minutes"';

/** The numbers that a text means, or what is wrong with it. */
function readRate(text: string): { readonly limit: number; readonly windowSeconds: number } | string {
  const [, amount, count = '1', unit] = RATE.exec(text) ?? [];
  if (unit === undefined) return FORM;
  const seconds = SECONDS.get(unit);
  if (seconds === undefined)
    return `names "${unit}": there are seconds, minutes, hours and days; for a week or month of the calendar, set window`;
  const [limit, windowSeconds] = [Number(amount), Number(count) * seconds];
  if (limit < 1 || limit > LARGEST_LIMIT) return `must allow 1 to ${LARGEST_LIMIT}`;
  if (windowSeconds < 1 || windowSeconds > LONGEST_WINDOW_SECONDS)
    return `must name a time of 1 to ${LONGEST_WINDOW_SECONDS} seconds`;
  return { limit, windowSeconds };
}

const rate = z.string().superRefine((text, context) => {
  const read = readRate(text);
  if (typeof read === 'string') context.addIssue({ code: 'custom', message: read });
});

/** The schema of a limit that may be a text. */
export const orRate = (limit: z.ZodNumber) => z.union([limit, rate], { error: FORM });

interface Said {
  readonly limit?: number | string | null | undefined;
}
type InNumbers<T extends Said> = Omit<T, 'limit'> & { readonly limit?: Exclude<T['limit'], string> };

/** Takes a limit that `orRate` has accepted, with the fields beside it. */
export function inNumbers<T extends Said>(said: T, context: z.core.$RefinementCtx<unknown>): InNumbers<T> {
  const { limit, ...others } = said;
  if (typeof limit !== 'string') return said as Omit<T, 'limit'>;
  for (const field of ['windowSeconds', 'window'])
    if (Reflect.get(others, field) != null)
      context.addIssue({ code: 'custom', path: [field], message: `cannot go with the limit "${limit}"` });
  return { ...others, ...(readRate(limit) as object) };
}
