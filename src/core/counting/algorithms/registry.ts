// All algorithms by id. A new one is a Lua file of the same name in lua/counters/algorithms, a TypeScript file, and a
// line here. Then `npm run script -- --write` puts the script together anew.
import type { Algorithm, Traits } from './algorithm.ts';
import { concurrency } from './concurrency.ts';
import { fixedWindow } from './fixed-window.ts';
import { gcra } from './gcra.ts';
import { leakyBucket } from './leaky-bucket.ts';
import { slidingWindowBuckets } from './sliding-window-buckets.ts';
import { slidingWindowCounter } from './sliding-window-counter.ts';
import { slidingWindowLog } from './sliding-window-log.ts';
import { tokenBucket } from './token-bucket.ts';

const registry = {
  'fixed-window': fixedWindow,
  'sliding-window-log': slidingWindowLog,
  'sliding-window-counter': slidingWindowCounter,
  'sliding-window-buckets': slidingWindowBuckets,
  'token-bucket': tokenBucket,
  'leaky-bucket': leakyBucket,
  gcra,
  concurrency,
};

export type AlgorithmId = keyof typeof registry;

export const ALGORITHM_IDS = Object.keys(registry) as [AlgorithmId, ...AlgorithmId[]];

/** Only the algorithm knows the type of its states. A store hands back the state that it was given. */
export const algorithmOf = (id: AlgorithmId): Algorithm<unknown> => registry[id] as Algorithm<unknown>;

/** For an unknown algorithm, a letter that the script does not know. */
export const letterOf = (id: AlgorithmId): string =>
  (registry[id] as Algorithm<unknown> | undefined)?.traits.letter ?? '?';

export const traitsOf = (id: AlgorithmId): Traits => registry[id].traits;

export const idsWith = (has: (traits: Traits) => boolean): AlgorithmId[] =>
  ALGORITHM_IDS.filter((id) => has(traitsOf(id)));
