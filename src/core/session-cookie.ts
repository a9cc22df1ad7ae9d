// Where the session of a person at the page is found in a request.

export const SESSION_COOKIE = '__Secure-weir';
/** Longer than any session: what is longer is not read. */
const MAX_LENGTH = 2_048;

/** Undefined: there is none. */
export function cookieIn({ headers }: Pick<Request, 'headers'>): string | undefined {
  const prefix = `${SESSION_COOKIE}=`;
  const found = headers
    .get('Cookie')
    ?.split(';')
    .map((part) => part.trim())
    .find((part) => part.startsWith(prefix));
  return found === undefined || found.length > MAX_LENGTH ? undefined : found.slice(prefix.length);
}
