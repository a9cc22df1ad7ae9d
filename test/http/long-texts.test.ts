// Reading what a client sends takes time that grows with its length, not with the square of it.

import { OpenAPIHono } from '@hono/zod-openapi';
import { describe, expect, it } from 'vitest';
import type { AdminEnv } from '../../src/admin/app.ts';
import { createAuth, createGate } from '../../src/admin/auth.ts';
import { isKnown } from '../../src/admin/collection/changes.ts';
import { isCountedIp } from '../../src/admin/routes/counters.ts';
import { parseIp, parseIpRange } from '../../src/core/matching/ip.ts';
import { canonicalPath, withoutExtensions } from '../../src/core/matching/path.ts';
import { parseAuthorization } from '../../src/http/credentials.ts';
import { readClientRequest } from '../../src/http/guard.ts';
import { createTokenVerifier } from '../../src/identity/jwt.ts';
import { toOriginHeaders } from '../../src/proxy/headers.ts';

const SHORT = 1_024;
const TIMES_LONGER = 64;
/** Compares one text with 64 pieces of it: linear work takes the same time, quadratic work 64 times as long. */
const MAX_TIMES_SLOWER = 16;
/**
 * Other work on this machine only makes a try longer, by up to a hundred times the time of the shortest text. So the
 * test uses the shortest try, and repeats a text that seems slow for this long. Quadratic work is slow in every try.
 */
const TRYING_MS = 2_000;

const admin = new OpenAPIHono<AdminEnv>().basePath('/_weir/admin');
admin.use(
  createAuth(
    createGate({
      regions: [],
      auth: { tokens: [{ name: 'admin', token: 'a-token-that-may-do-all', role: 'admin' }] },
      deadlineMs: 1_000,
      // Puts each attempt into its own minute, so that none is refused before it is read.
      now: (() => {
        let ms = 0;
        return () => (ms += 60_000);
      })(),
    }),
  ),
);

const requestWith = (headers: Record<string, string>) => new Request('https://weir.test/', { headers });
const attempt = (work: () => unknown) => {
  try {
    work();
  } catch {
    // A refusal is fine.
  }
};

const tokens = createTokenVerifier({
  algorithms: ['HS256'],
  secret: 'a-secret-of-thirty-two-characters',
  userClaim: 'sub',
  now: () => 0,
  deadlineMs: 100,
  onError: () => {},
});

const READERS: Readonly<Record<string, (text: string) => unknown>> = {
  'the Authorization header of the admin route': (text) =>
    admin.fetch(
      new Request('https://weir.test/_weir/admin/rules', { headers: { Authorization: `Bearer a${text}b` } }),
    ),
  'an Authorization header': (text) => {
    parseAuthorization(`Bearer ${text}`);
    parseAuthorization(`Bearer a${text}b`);
    // workerd reads headers as UTF-8, and for a regular expression this character ends a line.
    parseAuthorization(`Bearer ${text}\u2028b`);
  },
  'a token': (text) => tokens.verify(`${text}.${text}`, () => {}),
  'a path': (text) => {
    canonicalPath(`/${text}`);
    canonicalPath(`/${text}!`);
    canonicalPath(`/%${text}`);
  },
  'the extensions of a file': (text) => {
    withoutExtensions(`/${text}`);
    withoutExtensions(`/${text}!`);
  },
  'an IP address': (text) => {
    parseIp(`${text}x`);
    parseIp(`a:${text}x`);
    parseIpRange(`${text}/x`);
  },
  'the subject of a reset': (text) => isCountedIp(`${text}x`),
  'a list of ETags': (text) => attempt(() => isKnown(requestWith({ 'If-None-Match': `"1"${text}x` }), 1)),
  'what Connection names, and cookies': (text) =>
    toOriginHeaders(readClientRequest(requestWith({ Connection: `a${text}b`, Cookie: `a${text}b` })), {
      hop: '0123456789abcdef',
      policy: { overrides: 'drop', hidesAccess: true },
    }),
};

const PIECES = [
  ' ',
  ';',
  '=',
  '\t',
  'a',
  '1',
  '/',
  ':',
  '::',
  '"',
  ',',
  ' ,',
  '"1", ',
  '.',
  '/.',
  '.a',
  'a.a.',
  '%41',
  '%25',
  '25',
  '/..',
  'a:',
  'a/',
  '-',
];

const cases = Object.keys(READERS).flatMap((reader) => PIECES.map((piece) => ({ reader, piece })));

async function msOf(work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

describe('64 KB in one piece take no longer to read than in 64 pieces:', () => {
  it.each(cases)('$reader, made of "$piece"', async ({ reader, piece }) => {
    const read = READERS[reader] ?? (() => {});
    const short = piece.repeat(SHORT / piece.length);
    const long = short.repeat(TIMES_LONGER);
    let inPieces = Number.POSITIVE_INFINITY;
    let inOne = Number.POSITIVE_INFINITY;
    const isSlow = () => !(inOne / inPieces < MAX_TIMES_SLOWER);
    for (const startedAt = performance.now(); isSlow() && performance.now() - startedAt < TRYING_MS; ) {
      const piecesMs = await msOf(async () => {
        for (let i = 0; i < TIMES_LONGER; i += 1) await read(short);
      });
      inPieces = Math.min(inPieces, piecesMs);
      inOne = Math.min(inOne, await msOf(async () => void (await read(long))));
    }
    expect(inOne / inPieces).toBeLessThan(MAX_TIMES_SLOWER);
  });
});
