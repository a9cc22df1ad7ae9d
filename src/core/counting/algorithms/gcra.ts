// gcra: requests have an even spacing; each moves the theoretical arrival time (TAT) of the next one further, and
// passes if that stays within `burst` spacings of now. TAT is when a token bucket of the same size is full again: so
// both keep the same state by the same arithmetic.
import { tokenBucket } from './token-bucket.ts';

export const gcra = tokenBucket;
