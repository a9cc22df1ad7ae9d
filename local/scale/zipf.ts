// Subjects of which the second sends half as many requests as the first, the third a third, and so on.

/** A group of subjects that send the same number of requests. */
export interface Band {
  readonly subjects: number;
  /** The fraction of all requests that each subject of the band sends. */
  readonly part: number;
}

/** The first subjects are bands of one. The others share bands of growing size. */
const ONE_BY_ONE = 1_000;
const GROWTH = 1.05;

export function zipfBands(subjects: number): Band[] {
  const ranks: { readonly rank: number; readonly count: number }[] = [];
  for (let rank = 1; rank <= subjects; ) {
    const count = rank <= ONE_BY_ONE ? 1 : Math.min(Math.ceil(rank * (GROWTH - 1)), subjects - rank + 1);
    ranks.push({ rank: rank + (count - 1) / 2, count });
    rank += count;
  }
  const total = ranks.reduce((sum, { rank, count }) => sum + count / rank, 0);
  return ranks.map(({ rank, count }) => ({ subjects: count, part: 1 / rank / total }));
}
