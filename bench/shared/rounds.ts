// Compares measurements on a noisy machine: in turns, in short slices, for many rounds. Other work on the machine then
// slows all measurements alike, and medians drop the rest.

/** Measures one slice. */
export type Slice = () => Promise<number>;

export interface RoundsOptions {
  readonly rounds: number;
  say(line: string): void;
}

/** The measurements by name, one for each round. A first round warms up and is not counted. */
export async function interleave<Name extends string>(
  slices: Readonly<Record<Name, Slice>>,
  { rounds, say }: RoundsOptions,
): Promise<Record<Name, number[]>> {
  const names = Object.keys(slices) as Name[];
  const measured = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<Name, number[]>;
  for (let round = 0; round <= rounds; round++) {
    // Each round begins with another slice, so that no slice always profits from the warm caches of the same neighbour.
    for (const name of rotate(names, round)) {
      const value = await slices[name]();
      if (round > 0) measured[name].push(value);
    }
    if (round > 0 && round % 10 === 0) say(`round ${round} of ${rounds}`);
  }
  return measured;
}

const rotate = <T>(list: readonly T[], by: number): T[] => {
  const start = by % list.length;
  const turned = [...list.slice(start), ...list.slice(0, start)];
  return by % 2 === 0 ? turned : turned.reverse();
};

/** Returns the next part of the list at each call, again and again: a slice is short, but all of the list is used. */
export function inTurns<T>(list: readonly T[], size: number): () => T[] {
  let at = -size;
  return () => {
    at = at + size < list.length ? at + size : 0;
    return list.slice(at, at + size);
  };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  const low = sorted[Math.ceil(middle) - 1] ?? Number.NaN;
  const high = sorted[Math.floor(middle)] ?? Number.NaN;
  return (low + high) / 2;
}

/** The median of the ratios of the rounds that both have, which is steadier than the ratio of two medians. */
export const medianRatio = (above: readonly number[], below: readonly number[]): number =>
  median(above.slice(0, below.length).map((value, round) => value / (below[round] ?? Number.NaN)));

/** Adds up, round by round. */
export const sumOf = (...series: readonly (readonly number[])[]): number[] =>
  (series[0] ?? []).map((_, round) => series.reduce((sum, values) => sum + (values[round] ?? 0), 0));
