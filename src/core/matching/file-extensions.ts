// `/login.json` beside `/login`: some origins read a file extension as the wanted format, others as part of the name.
// If the settings ignore extensions, rules apply to the path with and without it.

export interface Paths {
  readonly matchPath: string;
  readonly otherPath?: string | undefined;
}

/** An extension follows a name and begins with a letter, so neither `/.well-known` nor `/v1.2` has one. */
const EXTENSIONS = /(?<=[^/.])(?:\.[a-z][a-z0-9]{0,9})+$/;

/** Undefined if the path has none. */
export function withoutExtension(matchPath: string): string | undefined {
  if (!matchPath.includes('.', matchPath.lastIndexOf('/'))) return undefined;
  const bare = matchPath.replace(EXTENSIONS, '');
  return bare === matchPath ? undefined : bare;
}

export const pathsOf = ({ matchPath, otherPath }: Paths): readonly string[] =>
  otherPath === undefined ? [matchPath] : [matchPath, otherPath];
