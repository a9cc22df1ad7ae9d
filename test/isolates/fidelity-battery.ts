// Requests and answers that are sent directly and through Weir, each with each. The lists below name all differences
// that are allowed.
import { gzipSync } from 'node:zlib';
import { patternBlocks } from '../../local/origin/content.ts';

export interface Sent {
  readonly method: string;
  readonly headers?: readonly string[];
  readonly body?: Uint8Array;
  /** Sent in chunks, without a length. */
  readonly chunked?: boolean;
}

const bytes = (count: number) => Buffer.concat([...patternBlocks(count)]);
const post = (body: Uint8Array, headers: readonly string[] = []): Sent => ({ method: 'POST', body, headers });

export const REQUESTS: Readonly<Record<string, Sent>> = {
  GET: { method: 'GET' },
  HEAD: { method: 'HEAD' },
  OPTIONS: {
    method: 'OPTIONS',
    headers: ['Origin', 'https://a.example', 'Access-Control-Request-Method', 'PUT'],
  },
  DELETE: { method: 'DELETE' },
  PROPFIND: { method: 'PROPFIND', headers: ['Depth', '1', 'TE', 'trailers'], body: Buffer.from('<a/>') },
  QUERY: { method: 'QUERY', body: Buffer.from('q') },
  'POST without a body': { method: 'POST', headers: ['Content-Length', '0'] },
  'GET with a body': { method: 'GET', body: Buffer.from('unusual') },
  'PUT of 3 MB': { method: 'PUT', body: bytes(3_000_000) },
  'PATCH in chunks': { method: 'PATCH', body: bytes(100_000), chunked: true },
  'POST of an empty body in chunks': { method: 'POST', body: new Uint8Array(), chunked: true },
  'POST of JSON that expects 100': post(Buffer.from('{"é":1}'), [
    ...['Expect', '100-continue', 'Content-Type', 'application/json; charset=utf-8'],
  ]),
  'POST of gzip': post(gzipSync('zipped'), ['Content-Encoding', 'gzip']),
  'GET with conditions, ranges and cookies': {
    method: 'GET',
    headers: [
      ...['If-None-Match', 'W/"a", "b"', 'If-Modified-Since', 'Wed, 21 Oct 2015 07:28:00 GMT'],
      ...[
        'Range',
        'bytes=0-9',
        'Cookie',
        'a=1; b="x y"; c=',
        'Accept-Encoding',
        'zstd;q=1.0, br, identity;q=0',
      ],
      ...['Authorization', 'Basic YTpi', 'User-Agent', 'test (1; "2")', 'Referer', 'https://a.example/?q=1'],
    ],
  },
  'GET with odd and large headers': {
    method: 'GET',
    headers: [
      ...[
        'X-Empty',
        '',
        'X-Tab',
        'a\tb',
        'X-Commas',
        ', a,, b ,',
        'X-Quotes',
        '"a\\"b',
        'X-Latin-1',
        'caf\xe9',
      ],
      ...[
        'X-Large',
        'x'.repeat(12_000),
        'x-LOWER-upper',
        '1',
        'X-Twice',
        'a, b',
        'X-Twice',
        'c',
        '!#$%',
        'token',
      ],
      ...Array.from({ length: 60 }, (_, i) => [`X-Many-${i}`, String(i)]).flat(),
    ],
  },
};

const cookies = ['a=1; Path=/; Expires=Wed, 21 Oct 2026 07:28:00 GMT', 'b=2; HttpOnly', 'a=3'];
const header = (name: string, value: string) => `header=${name}:${encodeURIComponent(value)}`;

/** As switches of the demo origin. */
export const ANSWERS: Readonly<Record<string, string>> = {
  'the echo': '',
  'nothing, 204': 'status=204',
  'nothing, 205': 'status=205',
  'not modified, 304': `status=304&${header('ETag', '"a"')}`,
  'created, 201': 'status=201&location=%2Fthings%2F1',
  'a redirect, 302': 'status=302&location=https%3A%2F%2Felsewhere.example%2F%3Fa%3D1%23b',
  'a redirect, 308': 'status=308&location=..%2Fx',
  'unauthorized, 401': `status=401&${header('WWW-Authenticate', 'Basic realm="a, b"')}`,
  'its own 429': `status=429&${header('Retry-After', '7')}`,
  'its own 503': 'status=503',
  'a status of its own': 'status=599',
  'three cookies': cookies.map((cookie) => header('Set-Cookie', cookie)).join('&'),
  'odd headers': [
    header('X-Empty', ''),
    header('X-Twice', 'a'),
    header('X-Twice', 'b, c'),
    header('X-Quotes', '"a\\"b\tc'),
    header('X-Latin-1', 'caf\xe9'),
    header('Vary', 'Accept, Origin'),
    header('Cache-Control', 'private, max-age=0'),
    header('X-Large', 'y'.repeat(5_000)),
  ].join('&'),
  'headers of the connection': `${header('Connection', 'X-Hop')}&${header('X-Hop', '1')}&${header('Proxy-Authenticate', 'x')}`,
  'no bytes': 'bytes=0',
  'one byte': 'bytes=1',
  '5 MB': 'bytes=5000000',
  'a stream of lines': 'stream=50&interval=0',
  gzip: 'gzip=1&bytes=100000',
  'gzip in pieces': 'gzip=1&stream=20&interval=0',
  // The bytes do not match their declared type. A proxy that looked inside would fail or change them.
  'what is not gzip': `bytes=1000&${header('Content-Encoding', 'gzip')}`,
  'what is not br': `bytes=1000&${header('Content-Encoding', 'br')}`,
  'what is not zstd': `bytes=1000&${header('Content-Encoding', 'zstd, gzip')}`,
  'a part of it, 206': `status=206&bytes=10&${header('Content-Range', 'bytes 0-9/100')}`,
};

/**
 * Removed on the way to the origin: headers of one connection, or forged ones. Also `TE`: the Workers runtime knows no
 * trailers, so Weir does not ask for them.
 */
export const NOT_FOR_THE_ORIGIN = ['connection', 'expect', 'te', 'cf-connecting-ip', 'x-weir-region', 'host'];
/** Added on the way to the origin, by Weir and by the Workers runtime. */
export const ADDED_FOR_THE_ORIGIN = [
  'host',
  'cf-worker',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-weir-hop',
];
/** Removed on the way to the client. */
export const NOT_FOR_THE_CLIENT = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'trailer',
  'x-hop',
  'date',
];
/** Added on the way to the client. */
export const ADDED_FOR_THE_CLIENT = /^(date|x-ratelimit-.*|ratelimit|ratelimit-policy|x-weir-rules-version)$/;
