// A moment as people write it: with its zone, so that nobody has to guess.
import * as z from 'zod';

export const moment = z.iso
  .datetime({ offset: true, error: 'must be a moment such as 2030-01-31T12:00:00Z, with its zone' })
  .transform((text) => new Date(text));
