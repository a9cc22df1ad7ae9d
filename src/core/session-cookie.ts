// Finds the session cookie of the page in a request.

export const SESSION_COOKIE = '__Secure-weir';
/** Longer than any session. A longer cookie is ignored. */
const MAX_LENGTH = 2_048;

/** Undefined if there is none. */
export function cookieIn({ headers }: Pick<Request, 'headers'>): string | undefined {
  const prefix = `${SESSION_COOKIE}=`;
  const found = headers
    .get('Cookie')
    ?.split(';')
    .map((part) => part.trim())
    .find((part) => part.startsWith(prefix));
  return found === undefined || found.length > MAX_LENGTH ? undefined : found.slice(prefix.length);
}
