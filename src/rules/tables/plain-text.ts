// Names for people: what ends a line or steers a terminal has no place in them.
import * as z from 'zod';

const CONTROL = /[\p{Cc}\p{Zl}\p{Zp}]/u;

export const plainText = (most: number) =>
  z
    .string()
    .max(most)
    .refine((text) => !CONTROL.test(text), 'must have no control characters');
