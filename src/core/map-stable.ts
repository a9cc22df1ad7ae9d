// Makes the lists of a request from other lists.

/**
 * Does what `map` does, for lists that every request makes. Most of them have one entry. When V8 inlines `map` in its
 * optimised code, `map` makes another kind of array than before. V8 would then compile all functions that get such an
 * array a second time.
 */
export function mapStable<T, U>(list: readonly T[], toOther: (one: T, i: number) => U): U[] {
  const [first] = list;
  if (first !== undefined && list.length === 1) return [toOther(first, 0)];
  const others: U[] = [];
  for (let i = 0; i < list.length; i += 1) others.push(toOther(list[i] as T, i));
  return others;
}
