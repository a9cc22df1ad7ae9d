// leaky-bucket: requests fill a bucket of size `burst` that leaks at an even pace. Its content is what a token bucket
// lacks, so both have the same state and arithmetic. The leaky bucket also computes how long a request waits for its
// turn.
import { type Algorithm, ceilDivide } from './algorithm.ts';
import { type TokenBucketState, tokenBucket } from './token-bucket.ts';

export const leakyBucket: Algorithm<TokenBucketState> = {
  ...tokenBucket,
  traits: { ...tokenBucket.traits, letter: 'k', hasQueue: true },

  advance(seen, nowMs, params) {
    const reading = tokenBucket.advance(seen, nowMs, params);
    const { missing, atMs } = reading.state;
    // If this request is admitted, everything before it leaves at its limit.
    return { ...reading, delayMs: atMs - nowMs + ceilDivide(missing, params.limit) };
  },
};
