// gcra: requests have an even spacing. Each moves the theoretical arrival time (TAT) of the next one further, and
// passes if TAT stays within `burst` spacings of now. TAT is the moment when a token bucket of the same size is full
// again, so both have the same state and arithmetic.
import type { Algorithm } from './algorithm.ts';
import { type TokenBucketState, tokenBucket } from './token-bucket.ts';

export const gcra: Algorithm<TokenBucketState> = {
  ...tokenBucket,
  traits: { ...tokenBucket.traits, letter: 'g' },
};
