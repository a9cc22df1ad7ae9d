// API keys. Those that Weir makes are `weir_`, 32 random characters, and 6 of a checksum. The checksum exposes a made-up
// or mistyped key before any look-up. Weir shows such a key once and stores only its hash and its prefix. Keys that were
// made elsewhere have any form within bounds, and Weir stores only their hash.
import { digest, toHex } from '../core/digest.ts';

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const MARK = 'weir_';
const RANDOM_LENGTH = 32;
const CHECKSUM_LENGTH = 6;
const KEY_LENGTH = MARK.length + RANDOM_LENGTH + CHECKSUM_LENGTH;
const SHAPE = /^weir_[A-Za-z0-9]+$/;

/** Twice as many bytes as random characters: about 1 in 32 bytes is skipped, and never half of them. */
export const API_KEY_RANDOM_BYTES = 64;

/** From `API_KEY_RANDOM_BYTES` bytes of a cryptographic random source. */
export async function createApiKey(randomBytes: Uint8Array): Promise<string> {
  // Bytes beyond the last multiple of 62 would make some characters likelier than others.
  const fair = randomBytes.filter((byte) => byte < 256 - (256 % ALPHABET.length));
  if (fair.length < RANDOM_LENGTH) throw new RangeError(`${randomBytes.length} random bytes are too few`);
  const body = MARK + spell(fair.subarray(0, RANDOM_LENGTH));
  return body + (await checksumOf(body));
}

export async function isWellFormedKey(text: string): Promise<boolean> {
  if (text.length !== KEY_LENGTH || !SHAPE.test(text)) return false;
  return text.slice(-CHECKSUM_LENGTH) === (await checksumOf(text.slice(0, -CHECKSUM_LENGTH)));
}

/** Whether Weir names a key with this prefix as one that it has made itself. */
export const hasFormOfWeir = (text: string): boolean => text.startsWith(MARK);

/** Shorter keys could be guessed. Longer ones are no keys: a session token of a few KiB still fits. */
const SHORTEST = 8;
export const LONGEST_KEY = 8_192;
/** Printable ASCII without blanks, because HTTP trims them, and without commas, which join several headers of one name. */
const PRINTABLE = /^[\x21-\x2b\x2d-\x7e]+$/;

/** Whether the text may be a key that was made elsewhere. */
export const canBeKey = (text: string): boolean =>
  text.length >= SHORTEST && text.length <= LONGEST_KEY && PRINTABLE.test(text);
export const WHAT_CAN_BE_KEY = `must have ${SHORTEST} to ${LONGEST_KEY} printable ASCII characters, without blanks and commas`;

/**
 * The hash that Weir stores. It needs no salt and no slow algorithm, because a key of Weir has 190 random bits, and a key
 * that was made elsewhere comes with its hash.
 */
export async function hashApiKey(key: string): Promise<string> {
  return toHex(await digest('SHA-256', key));
}

/** The beginning of a key, enough for a person to recognize it. */
export const prefixOf = (key: string): string => key.slice(0, MARK.length + 6);

/**
 * The same for a key that was made elsewhere: the beginning of its hash, because Weir does not know which part of the key
 * is secret, and often not the key itself.
 */
export const prefixOfHash = (hash: string): string => `sha256:${hash.slice(0, 8)}`;

async function checksumOf(body: string): Promise<string> {
  return spell((await digest('SHA-256', body)).subarray(0, CHECKSUM_LENGTH));
}

const spell = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => ALPHABET.charAt(byte % ALPHABET.length)).join('');
