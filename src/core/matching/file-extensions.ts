// `/login.json` beside `/login`: some origins take a file extension for the format that a client wants, others for a
// part of the name. If the settings say that it is ignored, rules hold for the path with and without it.

export interface Paths {
  readonly matchPath: string;
  readonly otherPath?: string | undefined;
}

/** A name before it, and a letter first: neither `/.well-known` nor `/v1.2` has one. */
const EXTENSIONS = /(?<=[^/.])(?:\.[a-z][a-z0-9]{0,9})+$/;

/** Undefined if the path has none. */
export function withoutExtension(matchPath: string): string | undefined {
  if (!matchPath.includes('.', matchPath.lastIndexOf('/'))) return undefined;
  const bare = matchPath.replace(EXTENSIONS, '');
  return bare === matchPath ? undefined : bare;
}

export const pathsOf = ({ matchPath, otherPath }: Paths): readonly string[] =>
  otherPath === undefined ? [matchPath] : [matchPath, otherPath];
