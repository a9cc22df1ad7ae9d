// A map by name that looks up a part of a text without a substring. A missing name costs one look into an array of
// hashes and touches no other name; in a `Map` of thousands, such look-ups were most of the cost.

interface Entry<T> {
  readonly name: string;
  readonly value: T;
}

export class NameTable<T> {
  /** 0 means free. At most half are taken, so that the next free one is near. */
  #hashes = new Int32Array(4);
  #entries: (Entry<T> | undefined)[] = [];
  #size = 0;

  get(text: string, start = 0, end = text.length): T | undefined {
    const place = this.#placeOf(hashOf(text, start, end), text, start, end);
    return this.#hashes[place] === 0 ? undefined : this.#entries[place]?.value;
  }

  getOrSet(name: string, create: () => T): T {
    const known = this.get(name);
    if (known !== undefined) return known;
    const entry = { name, value: create() };
    this.#size += 1;
    if (this.#size * 2 > this.#hashes.length) this.#grow();
    this.#put(entry);
    return entry.value;
  }

  #grow(): void {
    const entries = this.#entries;
    this.#hashes = new Int32Array(this.#hashes.length * 2);
    this.#entries = new Array(this.#hashes.length);
    for (const entry of entries) if (entry) this.#put(entry);
  }

  #put(entry: Entry<T>): void {
    const hash = hashOf(entry.name, 0, entry.name.length);
    const place = this.#placeOf(hash, entry.name, 0, entry.name.length);
    this.#hashes[place] = hash;
    this.#entries[place] = entry;
  }

  /** The position of the name, or the free position where it belongs. */
  #placeOf(hash: number, text: string, start: number, end: number): number {
    const hashes = this.#hashes;
    const last = hashes.length - 1;
    let place = (hash >>> 8) & last;
    while (hashes[place] !== 0 && !(hashes[place] === hash && this.#isAt(place, text, start, end)))
      place = (place + 1) & last;
    return place;
  }

  #isAt(place: number, text: string, start: number, end: number): boolean {
    const name = this.#entries[place]?.name ?? '';
    return name.length === end - start && text.startsWith(name, start);
  }
}

/** Never 0. */
function hashOf(text: string, start: number, end: number): number {
  let hash = 0;
  for (let i = start; i < end; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0;
  return Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) | 1;
}
