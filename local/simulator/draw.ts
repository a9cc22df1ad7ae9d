// Draws from a seeded generator.
import type { Random } from '../random.ts';

export const between = (random: Random, from: number, to: number): number => from + random() * (to - from);
export const wholeBetween = (random: Random, from: number, to: number): number =>
  Math.floor(between(random, from, to + 1));
export const oneOf = <T>(random: Random, [...all]: readonly T[]): T =>
  all[Math.floor(random() * all.length)] as T;
export const happens = (random: Random, probability: number): boolean => random() < probability;

/** Draws a place, by the weights. */
export function placeBy(random: Random, weights: readonly number[]): number {
  let point = random() * weights.reduce((sum, weight) => sum + weight, 0);
  return Math.max(
    0,
    weights.findIndex((weight) => {
      point -= weight;
      return point < 0;
    }),
  );
}
