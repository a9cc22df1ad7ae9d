// Preloaded: takes away what Node 20 does not have, so that a newer Node shows whether the package needs it.
const MISSING: readonly (readonly [object, readonly string[]])[] = [
  [globalThis, ['navigator', 'Iterator', 'WebSocket']],
  [Map, ['groupBy']],
  [Object, ['groupBy']],
  [Promise, ['withResolvers', 'try']],
  [Array, ['fromAsync']],
  [URL, ['parse']],
  [Uint8Array, ['fromBase64', 'fromHex']],
  [Uint8Array.prototype, ['toBase64', 'toHex']],
  [
    Set.prototype,
    ['union', 'intersection', 'difference', 'symmetricDifference', 'isSubsetOf', 'isSupersetOf'],
  ],
  [
    Object.getPrototypeOf(Object.getPrototypeOf([].values())),
    ['map', 'filter', 'take', 'drop', 'flatMap', 'reduce', 'toArray', 'forEach', 'some', 'every', 'find'],
  ],
];

for (const [owner, names] of MISSING)
  for (const name of names)
    if (!Reflect.deleteProperty(owner, name)) throw new Error(`${name} cannot be taken away`);
