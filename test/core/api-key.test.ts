import { describe, expect, it, vi } from 'vitest';
import {
  API_KEY_RANDOM_BYTES,
  createApiKey,
  hashApiKey,
  isWellFormedKey,
  prefixOf,
} from '../../src/identity/api-key.ts';

const randomBytes = () => crypto.getRandomValues(new Uint8Array(API_KEY_RANDOM_BYTES));

describe('createApiKey', () => {
  it('makes well-formed keys that are all different', async () => {
    const keys = await Promise.all(Array.from({ length: 1_000 }, () => createApiKey(randomBytes())));
    expect(new Set(keys).size).toBe(1_000);
    for (const key of keys) {
      expect(key).toMatch(/^weir_[A-Za-z0-9]{38}$/);
      expect(await isWellFormedKey(key)).toBe(true);
    }
  });

  it('spells the bytes in order and skips bytes that would favour some characters', async () => {
    const key = await createApiKey(Uint8Array.from([...Array(32).fill(255), ...Array(32).keys()]));
    expect(key.slice(5, 37)).toBe('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef');
  });

  it('gives each character the same number of bytes', async () => {
    const counts = new Map<string, number>();
    for (let byte = 0; byte < 248; byte++) {
      const [letter = ''] = (await createApiKey(new Uint8Array(32).fill(byte))).slice(5);
      counts.set(letter, (counts.get(letter) ?? 0) + 1);
    }
    expect(counts.size).toBe(62);
    expect(new Set(counts.values())).toEqual(new Set([4]));
    await expect(createApiKey(new Uint8Array(64).fill(248))).rejects.toThrow(RangeError);
  });

  it('refuses to make a key from too few bytes', async () => {
    await expect(createApiKey(new Uint8Array(31))).rejects.toThrow('31 random bytes are too few');
  });
});

describe('isWellFormedKey', () => {
  it('rejects a key in which one character is wrong', async () => {
    const key = await createApiKey(randomBytes());
    for (let at = 0; at < key.length; at++) {
      const wrong = key[at] === 'x' ? 'y' : 'x';
      expect(await isWellFormedKey(key.slice(0, at) + wrong + key.slice(at + 1))).toBe(false);
    }
  });

  it('accepts a key from long ago: the checksum never changes', async () => {
    expect(await isWellFormedKey(`weir_${'A'.repeat(32)}DI4sjp`)).toBe(true);
  });

  it('rejects other text without computing a digest', async () => {
    const key = await createApiKey(randomBytes());
    const hashing = vi.spyOn(crypto.subtle, 'digest');
    const others = [
      '',
      'weir_',
      key.slice(1),
      `${key}A`,
      `${key}\n`,
      key.replace('_', '-'),
      key.toUpperCase(),
    ];
    for (const text of [...others, `${key.slice(0, -1)}ä`, 'x'.repeat(1_000_000)])
      expect(await isWellFormedKey(text)).toBe(false);
    expect(hashing).not.toHaveBeenCalled();
    hashing.mockRestore();
  });
});

it('an API key has a hash and a short prefix', async () => {
  expect(await hashApiKey('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
  const key = await createApiKey(new Uint8Array(64));
  expect(prefixOf(key)).toBe('weir_AAAAAA');
});
