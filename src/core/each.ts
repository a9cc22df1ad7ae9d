// Lists of a request, made from other lists.

/**
 * Does what `map` does, for lists that every request makes. Most of them have one entry. V8 inlines `map` in its
 * optimised code, and then it makes another kind of array than before. All functions that get such an array would be
 * compiled a second time.
 */
export function eachAs<T, U>(list: readonly T[], toOther: (one: T, i: number) => U): U[] {
  const [first] = list;
  if (first !== undefined && list.length === 1) return [toOther(first, 0)];
  const others: U[] = [];
  for (let i = 0; i < list.length; i += 1) others.push(toOther(list[i] as T, i));
  return others;
}
