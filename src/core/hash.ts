// A short hash of a text, the same in every isolate. Not for secrets: anybody can find a text with a given hash.

/**
 * 32 bits: FNV-1a over the UTF-16 units, then the finalizer of MurmurHash3, without which similar texts stay similar.
 */
export function hash(text: string, seed = 0x811c9dc5): number {
  let state = seed;
  for (let i = 0; i < text.length; i++) state = Math.imul(state ^ text.charCodeAt(i), 0x01000193);
  state = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
  state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35);
  return (state ^ (state >>> 16)) >>> 0;
}
