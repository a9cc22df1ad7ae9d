// Text as bytes: digests and signatures, random ids, hex and base64, and long texts packed for any store.

export async function digest(algorithm: 'SHA-1' | 'SHA-256', text: string): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await crypto.subtle.digest(algorithm, new TextEncoder().encode(text)));
}

/** HMAC-SHA-256 of texts under one key, which is imported once. */
export function createSigner(key: string | Uint8Array<ArrayBuffer>) {
  const bytes = typeof key === 'string' ? new TextEncoder().encode(key) : key;
  let imported: Awaited<ReturnType<typeof crypto.subtle.importKey>> | undefined;
  return async (text: string): Promise<Uint8Array> => {
    imported ??= await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, [
      'sign',
    ]);
    return new Uint8Array(await crypto.subtle.sign('HMAC', imported, new TextEncoder().encode(text)));
  };
}

/** Compares in constant time, so that the time reveals nothing about the bytes. */
export function isSameBytes(a: Uint8Array, b: Uint8Array): boolean {
  let difference = a.length ^ b.length;
  for (let i = 0; i < a.length; i += 1) difference |= (a[i] ?? 0) ^ (b[i] ?? 0);
  return difference === 0;
}

/** Compares texts, because several base64 texts can stand for the same bytes, and only one was issued. */
export const isSameText = (a: string, b: string): boolean =>
  isSameBytes(new TextEncoder().encode(a), new TextEncoder().encode(b));

/** The parts of `payload.signature`. Undefined if there are more or fewer: a signature covers no third part. */
export function partsOfSigned(text: string): readonly [payload: string, signature: string] | undefined {
  const [payload, signature, ...others] = text.split('.', 3);
  return payload === undefined || signature === undefined || others.length > 0
    ? undefined
    : [payload, signature];
}

/** A unique id of 16 characters. */
export const randomId = (): string => toBase64Url(crypto.getRandomValues(new Uint8Array(12)));

export const toHex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

/** How many bytes become text at once. A function takes no more arguments than that. */
const AT_ONCE = 0x8000;

export function toBase64(bytes: Uint8Array): string {
  let binary = '';
  for (let at = 0; at < bytes.length; at += AT_ONCE)
    binary += String.fromCharCode(...bytes.subarray(at, at + AT_ONCE));
  return btoa(binary);
}

export const toBase64Url = (bytes: Uint8Array): string =>
  toBase64(bytes).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');

/** Accepts both alphabets. Text that is not base64 gives no bytes. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  try {
    const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
    return Uint8Array.from(binary, (character) => character.charCodeAt(0));
  } catch {
    return new Uint8Array(0);
  }
}

export const textToBase64Url = (text: string): string => toBase64Url(new TextEncoder().encode(text));
export const textFromBase64 = (base64: string): string => new TextDecoder().decode(fromBase64(base64));

/** Packs a long text for any store: gzip, in base64. */
export const packText = async (text: string): Promise<string> =>
  toBase64(await through(new CompressionStream('gzip'), new TextEncoder().encode(text)));

/** Undefined if the text was not packed by `packText`. */
export const unpackText = (packed: string): Promise<string | undefined> =>
  through(new DecompressionStream('gzip'), fromBase64(packed)).then(
    (bytes) => new TextDecoder().decode(bytes),
    () => undefined,
  );

async function through(
  stream: CompressionStream | DecompressionStream,
  bytes: Uint8Array,
): Promise<Uint8Array> {
  const streamed = new Blob([bytes]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(streamed).arrayBuffer());
}
