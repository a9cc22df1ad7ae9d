// How much a counter can hold at once.
import { type AlgorithmId, traitsOf } from './algorithms/registry.ts';

export interface Holding {
  readonly algorithm: AlgorithmId;
  readonly limit: number;
  readonly extra?: number | undefined;
}

export const hasBurst = ({ algorithm }: Pick<Holding, 'algorithm'>): boolean =>
  traitsOf(algorithm).extra === 'burst';

/** The most units that fit at once. A bucket whose limit is 0 never refills, so its capacity is 0. */
export const capacityOf = ({ algorithm, limit, extra = limit }: Holding): number =>
  hasBurst({ algorithm }) && limit > 0 ? extra : limit;
