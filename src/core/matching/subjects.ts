// The subjects of an override: names, and patterns such as `acme-*`, which match all names with that beginning.
import { NameTable } from './name-table.ts';

const STAR = '*';

export const isPattern = (subject: string): boolean => subject.endsWith(STAR);
export const prefixOf = (pattern: string): string => pattern.slice(0, -STAR.length);

/** An empty list means everybody. */
export function namesSubject(subjects: readonly string[], id: string | undefined): boolean {
  if (subjects.length === 0) return true;
  return (
    id !== undefined && subjects.some((one) => (isPattern(one) ? id.startsWith(prefixOf(one)) : id === one))
  );
}

/** Values by the beginning of a name. The cost of a look-up grows only with the number of different lengths. */
export class PrefixTable<T> {
  readonly #table = new NameTable<T>();
  #lengths: readonly number[] = [];

  getOrSet(prefix: string, create: () => T): T {
    if (!this.#lengths.includes(prefix.length))
      this.#lengths = [...this.#lengths, prefix.length].sort((a, b) => a - b);
    return this.#table.getOrSet(prefix, create);
  }

  /** The values of all prefixes that the name begins with, the shortest first. */
  find(text: string, start = 0, end = text.length): T[] {
    const found: T[] = [];
    for (const length of this.#lengths) {
      const value = length <= end - start ? this.#table.get(text, start, start + length) : undefined;
      if (value !== undefined) found.push(value);
    }
    return found;
  }
}
