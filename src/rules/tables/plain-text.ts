// Names for people, without line ends and control characters.
import * as z from 'zod';

const CONTROL = /[\p{Cc}\p{Zl}\p{Zp}]/u;

export const plainText = (most: number) =>
  z
    .string()
    .max(most)
    .refine((text) => !CONTROL.test(text), 'must have no control characters');
