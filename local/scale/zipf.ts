// Subjects of which the second sends half as much as the first, the third a third, and so on.

/** Some subjects that send alike. */
export interface Band {
  readonly subjects: number;
  /** Of all requests, that each of them sends. */
  readonly part: number;
}

/** The first of them one by one, the others in bands that grow. */
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
