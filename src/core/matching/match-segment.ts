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
/** All other characters are escaped, so that `*`, `{}`, `;` and `/` in a name are never those of a rule. */
const TO_ESCAPE = /[^a-z0-9._~!$&'()+,=:@-]/gu;

export function matchSegment(segment: string): MatchedSegment {
  if (segment === PARAMETER) return { ok: true, text: segment };
  const decoded = decode(segment);
  if (!decoded.ok) return decoded;
  const name = fold(withoutParameters(decoded.text)).trim();
  // An origin that cuts parameters, trims or decodes once more before it resolves dots would leave the folder.
  if (name === '.' || name === '..') return refusedSegment(`"${segment}" can be read as ${name}`);
  return { ok: true, text: name.replace(TO_ESCAPE, escapeCharacter) };
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
