// `/login.json` beside `/login`: some origins read a file extension as the wanted format, others as part of the name.
// If the settings ignore extensions, rules apply to the path with and without it.

export interface Paths {
  readonly matchPath: string;
  readonly otherPath?: string | undefined;
}

/** An extension begins with a letter, so `/v1.2` has none. */
const EXTENSION = /^[a-z][a-z0-9]{0,9}$/;

/**
 * Undefined if the path has none. Takes one extension after the other off the end; a single expression for all of them
 * would try every dot of a long path anew.
 */
export function withoutExtension(matchPath: string): string | undefined {
  let end = matchPath.length;
  for (let dot = lastDot(matchPath, end); dot > 0; dot = lastDot(matchPath, end)) {
    const before = matchPath[dot - 1];
    // An extension follows a name, so `/.well-known` has none.
    if (before === '/' || before === '.' || !EXTENSION.test(matchPath.slice(dot + 1, end))) break;
    end = dot;
  }
  return end === matchPath.length ? undefined : matchPath.slice(0, end);
}

const lastDot = (path: string, end: number) => path.lastIndexOf('.', end - 1);

export const pathsOf = ({ matchPath, otherPath }: Paths): readonly string[] =>
  otherPath === undefined ? [matchPath] : [matchPath, otherPath];
