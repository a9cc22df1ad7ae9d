// One segment of a path as rules compare it: whatever an origin may overlook in a name is taken out of it. A name
// that only some origins would tell apart counts as one, which may count too much and never lets anything escape.

export type MatchedSegment =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly reason: string };

/** Spelled like this in a rule's resource alone: URLs encode braces. */
const PARAMETER = '{}';
/** An origin behind a proxy or two decodes this often at most. */
const MAX_DECODINGS = 3;
const ESCAPE = /%[0-9A-Fa-f]{2}/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const HIDDEN = /[/\\?#\x00-\x1f\x7f]/;
/** All other characters are escaped, so that `*`, `{}`, `;` and `/` in a name are never those of a rule. */
const TO_ESCAPE = /[^a-z0-9._~!$&'()+,=:@-]/gu;

export function matchSegment(segment: string): MatchedSegment {
  if (segment === PARAMETER) return { ok: true, text: segment };
  const decoded = decode(segment);
  if (!decoded.ok) return decoded;
  const name = fold(withoutParameters(decoded.text)).trim();
  // Origins that cut parameters, trim or decode once more before they resolve dots would leave the folder.
  if (name === '.' || name === '..') return refused(`"${segment}" can be read as ${name}`);
  return { ok: true, text: name.replace(TO_ESCAPE, escapeCharacter) };
}

const refused = (reason: string): MatchedSegment => ({ ok: false, reason });

/** Again and again, for origins that decode what a proxy before them has decoded already. */
function decode(segment: string): MatchedSegment {
  let text = segment;
  for (let decodings = 0; ESCAPE.test(text); decodings += 1) {
    if (decodings === MAX_DECODINGS) return refused(`"${segment}" is encoded too many times`);
    const decoded = decodeOnce(text);
    // Overlong forms, lone continuation bytes and Latin-1: what these stand for depends on who decodes them.
    if (decoded === undefined) return refused(`"${segment}" is not UTF-8`);
    text = decoded;
    // The first decoding brings none forth, canonicalPath has refused them; the second one can (%252F).
    const hidden = HIDDEN.exec(text);
    if (hidden) return refused(`"${segment}" hides a ${escapeCharacter(hidden[0])}`);
  }
  return { ok: true, text };
}

/** A `%` that begins no escape is a percent sign: what is decoded again need not have been written as a URL. */
function decodeOnce(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replace(/%(?![0-9A-Fa-f]{2})/g, '%25'));
  } catch {
    return undefined;
  }
}

/** Servlet containers cut `;parameters`; whether they do so before or after decoding differs. */
function withoutParameters(text: string): string {
  const semicolon = text.indexOf(';');
  return semicolon === -1 ? text : text.slice(0, semicolon);
}

/**
 * Without regard to case, to how an accent is composed, or to fullwidth and other compatible forms: file systems and
 * frameworks differ in all of them. Lower, upper, lower: ẞ, ß and ſ change with the second or third only.
 */
const fold = (text: string) =>
  /^[\x20-\x7e]*$/.test(text)
    ? text.toLowerCase()
    : text.normalize('NFKC').toLowerCase().toUpperCase().toLowerCase().normalize('NFKC');

const escapeCharacter = (character: string) =>
  character === '*' ? '%2a' : encodeURIComponent(character).toLowerCase();
