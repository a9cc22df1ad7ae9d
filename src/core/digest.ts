// Digests and signatures of text, random ids, hex and base64.

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

export const toBase64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes));

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
