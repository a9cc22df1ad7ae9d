// Names for people, without line ends and control characters, and texts that can be stored.
import * as z from 'zod';

const CONTROL = /[\p{Cc}\p{Zl}\p{Zp}]/u;

/** Postgres cannot store half of a surrogate pair. On the way there it becomes another character. */
export const isWhole = (text: string) => text.isWellFormed();
export const NOT_WHOLE = 'has half of a surrogate pair, which is not a character';

export const plainText = (most: number) =>
  z
    .string()
    .max(most)
    .refine((text) => !CONTROL.test(text), 'must have no control characters')
    .refine(isWhole, NOT_WHOLE);
