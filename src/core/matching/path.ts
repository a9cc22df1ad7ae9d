// The canonical form of a request path: `path` goes to the origin, `matchPath` to the rules. Two spellings that an
// origin may read as the same path have the same `matchPath`. A path that can be read in two ways is refused.

// Normalises one segment of a path for matching: it removes everything that an origin may ignore in a name. Names that
// only some origins tell apart become the same. That may count too much, but nothing escapes.

export type MatchedSegment =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly reason: string };

/** Only a rule's resource is spelled like this, because URLs encode braces. */
const PARAMETER = '{}';
/** An origin behind one or two proxies decodes at most this many times. */
const MAX_DECODINGS = 3;
const ESCAPE = /%[0-9A-Fa-f]{2}/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern looks for them.
const HIDDEN = /[/\\?#\x00-\x1f\x7f]/;
/** Windows drops these from the end of a name. A name of nothing else stays as it is. */
const IGNORED_END = /(?<=[^.\s])[.\s]+$/;
/** All other characters are escaped, so that `*`, `{}`, `;` and `/` in a name are never those of a rule. */
const TO_ESCAPE = /[^a-z0-9._~!$&'()+,=:@-]/gu;

export function matchSegment(segment: string): MatchedSegment {
  if (segment === PARAMETER) return { ok: true, text: segment };
  const decoded = decode(segment);
  if (!decoded.ok) return decoded;
  const name = fold(withoutParameters(decoded.text)).trim();
  // An origin that cuts parameters, trims or decodes once more before it resolves dots would leave the folder.
  if (name === '.' || name === '..') return refusedSegment(`"${segment}" can be read as ${name}`);
  return { ok: true, text: name.replace(IGNORED_END, '').replace(TO_ESCAPE, escapeCharacter) };
}

const refusedSegment = (reason: string): MatchedSegment => ({ ok: false, reason });

/** Decodes repeatedly, for origins that decode text that a proxy has decoded already. */
function decode(segment: string): MatchedSegment {
  let text = segment;
  for (let decodings = 0; ESCAPE.test(text); decodings += 1) {
    if (decodings === MAX_DECODINGS) return refusedSegment(`"${segment}" is encoded too many times`);
    const decoded = decodeOnce(text);
    // The meaning of overlong forms, lone continuation bytes and Latin-1 depends on the decoder.
    if (decoded === undefined) return refusedSegment(`"${segment}" is not UTF-8`);
    text = decoded;
    // canonicalPath has refused these characters before the first decoding, but the second can produce them (%252F).
    const hidden = HIDDEN.exec(text);
    if (hidden) return refusedSegment(`"${segment}" hides a ${escapeCharacter(hidden[0])}`);
  }
  return { ok: true, text };
}

/** A `%` that begins no escape is a percent sign: text that is decoded again need not be a URL. */
function decodeOnce(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replace(/%(?![0-9A-Fa-f]{2})/g, '%25'));
  } catch {
    return undefined;
  }
}

/** Servlet containers cut `;parameters`, some before decoding and some after it. */
function withoutParameters(text: string): string {
  const semicolon = text.indexOf(';');
  return semicolon === -1 ? text : text.slice(0, semicolon);
}

/**
 * Ignores case, the composition of accents, and fullwidth and other compatible forms, because file systems and
 * frameworks differ in all of them. Lower, upper, lower: ẞ, ß and ſ change only with the second or third step.
 */
const fold = (text: string) =>
  /^[\x20-\x7e]*$/.test(text)
    ? text.toLowerCase()
    : text.normalize('NFKC').toLowerCase().toUpperCase().toLowerCase().normalize('NFKC');

const escapeCharacter = (character: string) =>
  character === '*' ? '%2a' : encodeURIComponent(character).toLowerCase();

export type CanonicalPath =
  | { readonly ok: true; readonly path: string; readonly matchPath: string }
  | { readonly ok: false; readonly reason: string };

/** Nearly all paths look like this and need no resolving, decoding or refusing. */
const PLAIN = /^(?:\/[\w~-][\w.~-]*(?<!\.))+\/?$/;
/**
 * Encoded slash, backslash, question mark, hash and control characters: some origins decode them before they split,
 * route or log.
 */
const AMBIGUOUS = /%(2F|5C|3F|23|[01][0-9A-F]|7F)/;
/** What the WHATWG URL parser encodes in a path; not braces, which stand for parameters in a rule's resource. */
const TO_ENCODE = /[^\x21-\x7e]|["<>^`]/gu;
const UNRESERVED = /[A-Za-z0-9._~-]/;

export function canonicalPath(rawPath: string): CanonicalPath {
  if (PLAIN.test(rawPath)) return plain(rawPath);
  if (/%(?![0-9A-Fa-f]{2})/.test(rawPath)) return refused('a % must be followed by two hexadecimal digits');
  const spelled = respell(rawPath);
  const ambiguous = AMBIGUOUS.exec(spelled);
  if (ambiguous) return refused(`${ambiguous[0]} is not allowed in a path`);
  // The URL parser turns backslashes of requests into slashes, but a rule's resource may still contain one.
  if (spelled.includes('\\')) return refused('a backslash is not allowed in a path');
  return match(resolve(spelled.split('/').slice(1)));
}

function plain(path: string): CanonicalPath {
  const bare = path.endsWith('/') ? path.slice(0, -1) : path;
  return { ok: true, path, matchPath: bare.toLowerCase() };
}

const refused = (reason: string): CanonicalPath => ({ ok: false, reason });

/** Decodes characters that need no escape and writes all other escapes in upper case. */
function respell(path: string): string {
  return path
    .toWellFormed()
    .replace(TO_ENCODE, (character) => encodeURIComponent(character))
    .replace(/%[0-9A-Fa-f]{2}/g, (encoded) => {
      const character = String.fromCharCode(Number.parseInt(encoded.slice(1), 16));
      return UNRESERVED.test(character) ? character : encoded.toUpperCase();
    });
}

interface Resolved {
  readonly segments: readonly string[];
  readonly endsAsFolder: boolean;
}

/** Resolves `.` and `..` like the WHATWG URL parser, never above the root. Then repeated slashes become one. */
function resolve(written: readonly string[]): Resolved {
  const kept: string[] = [];
  for (const segment of written) {
    if (segment === '..') kept.pop();
    else if (segment !== '.') kept.push(segment);
  }
  const last = written.at(-1);
  const segments = kept.filter((segment) => segment !== '');
  return { segments, endsAsFolder: last === '' || last === '.' || last === '..' };
}

function match({ segments, endsAsFolder }: Resolved): CanonicalPath {
  const matched: string[] = [];
  for (const segment of segments) {
    const result = matchSegment(segment);
    if (!result.ok) return result;
    if (result.text !== '') matched.push(result.text);
  }
  const path = `/${segments.join('/')}${endsAsFolder && segments.length > 0 ? '/' : ''}`;
  return { ok: true, path, matchPath: `/${matched.join('/')}` };
}

// `/login.json` beside `/login`: some origins read a file extension as the wanted format, others as part of the name.
// If the settings ignore extensions, rules apply to the path with and without them.

export interface Paths {
  readonly matchPath: string;
  readonly otherPaths?: readonly string[] | undefined;
}

/**
 * The path without its last extension, and without all of them. Origins that read extensions take any text after a dot
 * for one, also `/v1.2`. Takes one after the other off the end; a single expression for all of them would try every dot
 * of a long path anew.
 */
export function withoutExtensions(matchPath: string): readonly string[] {
  const nameAt = matchPath.lastIndexOf('/') + 1;
  const ends: number[] = [];
  let end = matchPath.length;
  for (let dot = lastDot(matchPath, end); dot > nameAt; dot = lastDot(matchPath, end)) {
    // An extension follows a name, so `/.well-known` has none.
    if (dot === end - 1 || matchPath[dot - 1] === '.') break;
    end = dot;
    ends[Math.min(ends.length, 1)] = end;
  }
  return ends.map((at) => matchPath.slice(0, at));
}

const lastDot = (path: string, end: number) => path.lastIndexOf('.', end - 1);

export const pathsOf = ({ matchPath, otherPaths = [] }: Paths): readonly string[] => [
  matchPath,
  ...otherPaths,
];
