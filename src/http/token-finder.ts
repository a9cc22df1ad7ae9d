// Finds the owner of a token. It compares all bytes of all digests, so that the time reveals nothing about content,
// length or position.
import { digest, isSameBytes } from '../core/digest.ts';

export function createTokenFinder<T extends { readonly token: string }>(tokens: readonly T[]) {
  let digests: readonly Uint8Array[] | undefined;

  return async (given: string): Promise<T | undefined> => {
    digests ??= await Promise.all(tokens.map(({ token }) => digest('SHA-256', token)));
    const wanted = await digest('SHA-256', given);
    let found = -1;
    digests.forEach((one, i) => {
      found = isSameBytes(one, wanted) ? i : found;
    });
    return tokens[found];
  };
}
