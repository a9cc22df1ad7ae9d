// What Node 20 does not have. `local/package.ts` puts these functions in place of the built-in ones, so that the package
// runs there without a change of the globals of others.
type KeyOf<T, K> = (item: T, index: number) => K;

export function groupInMap<T, K>(items: Iterable<T>, keyOf: KeyOf<T, K>): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  let index = 0;
  for (const item of items) {
    const key = keyOf(item, index);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
    index += 1;
  }
  return groups;
}

export const groupInObject = <T, K extends PropertyKey>(items: Iterable<T>, keyOf: KeyOf<T, K>) =>
  Object.fromEntries(groupInMap(items, keyOf));

export function withResolvers<T>() {
  let settle: Pick<PromiseWithResolvers<T>, 'resolve' | 'reject'> | undefined;
  const promise = new Promise<T>((resolve, reject) => {
    settle = { resolve, reject };
  });
  return { promise, ...settle };
}

export const parseUrl = (url: string): URL | null => (URL.canParse(url) ? new URL(url) : null);
