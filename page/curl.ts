// Turns a pasted curl command into the request that it would send, with the fields that rules look at. Pure.

export interface PastedRequest {
  readonly method: string;
  readonly path: string;
  readonly ip?: string;
  readonly apiKey?: string;
  readonly userId?: string;
}

const SENDS_BODY = [
  '-d',
  '--data',
  '--data-raw',
  '--data-binary',
  '--data-urlencode',
  '--json',
  '-F',
  '--form',
];
/** Options of curl that take a value. All others take none. */
const WITH_VALUE = new Set([
  ...SENDS_BODY,
  ...['-X', '--request', '-H', '--header', '-u', '--user', '-A', '--user-agent', '-b', '--cookie'],
  ...['-e', '--referer', '-o', '--output', '-w', '--write-out', '-m', '--max-time', '--connect-timeout'],
  ...['-T', '--upload-file', '--url', '-x', '--proxy'],
]);

/** Undefined if the command names no URL. */
export function parseCurl(text: string): PastedRequest | undefined {
  const [first, ...words] = wordsOf(text);
  const { options, alone } = sort(first === 'curl' ? words : [first ?? '', ...words]);
  const of = (...names: readonly string[]) =>
    options.filter(([name]) => names.includes(name)).map(([, value]) => value);
  const address = of('--url')[0] ?? alone.find((word) => !word.startsWith('-'));
  const path = address === undefined ? undefined : pathOf(address);
  if (path === undefined) return undefined;
  const headers = new Map(of('-H', '--header').map(headerOf));
  const isHead = alone.some((word) => word === '--head' || /^-[a-zA-Z]*I/.test(word));
  const implied = isHead
    ? 'HEAD'
    : of('-T', '--upload-file').length > 0
      ? 'PUT'
      : of(...SENDS_BODY).length > 0
        ? 'POST'
        : 'GET';
  return {
    method: (of('-X', '--request')[0] ?? implied).toUpperCase(),
    path,
    ...given('ip', headers.get('cf-connecting-ip')),
    ...given('apiKey', headers.get('x-api-key') ?? keyOfWeir(headers.get('authorization'))),
    ...given('userId', subjectOf(headers.get('authorization'))),
  };
}

/** Splits like a shell: quotes keep blanks together, and a backslash at the end of a line continues it. */
function wordsOf(text: string): string[] {
  const words = text.replace(/\\\r?\n/g, ' ').matchAll(/(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\])+/g);
  return [...words].map(([word]) =>
    word.replace(
      /'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)/g,
      (_, single?: string, double?: string, escaped?: string) =>
        single ?? double?.replace(/\\(.)/g, '$1') ?? escaped ?? '',
    ),
  );
}

function sort(words: readonly string[]): { options: [name: string, value: string][]; alone: string[] } {
  const options: [string, string][] = [];
  const alone: string[] = [];
  for (let i = 0; i < words.length; i += 1) {
    const word = words[i] ?? '';
    const joined = /^(-[XHduAbeowmTxF])(.+)$/s.exec(word) ?? /^(--[a-z-]+)=(.*)$/s.exec(word);
    if (WITH_VALUE.has(word)) {
      options.push([word, words[i + 1] ?? '']);
      i += 1;
    } else if (joined) options.push([joined[1] ?? '', joined[2] ?? '']);
    else alone.push(word);
  }
  return { options, alone };
}

const headerOf = (line: string): [name: string, value: string] => {
  const colon = line.indexOf(':');
  return [line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim()];
};

/** Keeps the path as written, because the question may be about what a URL parser would change. */
function pathOf(address: string): string | undefined {
  const path = /^(?:[a-z]+:\/\/)?[^/?#]*([^#]*)/i.exec(address)?.[1] ?? '';
  return address === '' ? undefined : path.startsWith('/') ? path : `/${path}`;
}

const given = <Name extends string>(name: Name, value: string | undefined) =>
  (value ? { [name]: value } : {}) as { [Key in Name]?: string };

/** A bearer token that is a key which Weir has made. */
const keyOfWeir = (authorization: string | undefined) =>
  /^Bearer\s+(weir_\w+)$/i.exec(authorization ?? '')?.[1];

/** The subject of a JWT. Nobody has verified it here. */
function subjectOf(authorization: string | undefined): string | undefined {
  const payload = /^Bearer\s+[^.\s]+\.([^.\s]+)\./i.exec(authorization ?? '')?.[1];
  if (payload === undefined) return undefined;
  try {
    const { sub } = JSON.parse(atob(payload.replaceAll('-', '+').replaceAll('_', '/')));
    return typeof sub === 'string' ? sub : undefined;
  } catch {
    return undefined;
  }
}
