// A token issuer for tests: real keys, real signatures, and a real server of the keys.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWK } from 'jose';
import { afterEach, beforeAll, beforeEach } from 'vitest';
import { createTokenVerifier, type TokenVerifierOptions } from '../../src/identity/jwt.ts';

export const NOW = Date.UTC(2030, 0, 1);
export const ISSUER = 'https://issuer.test/';
export const AUDIENCE = 'api';
export const IN_A_MINUTE = NOW / 1000 + 60;
export type KeyPair = Awaited<ReturnType<typeof generateKeyPair>>;

export const newPair = (algorithm = 'RS256') => generateKeyPair(algorithm, { extractable: true });

export const toJwk = async ({ publicKey }: KeyPair, kid: string, alg: string): Promise<JWK> => ({
  ...(await exportJWK(publicKey)),
  kid,
  alg,
  use: 'sig',
});

const encoded = (value: unknown) =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

const SIGNING = { RS256: 'RSASSA-PKCS1-v1_5', ES256: { name: 'ECDSA', hash: 'SHA-256' } } as const;

/** Takes header and claims as objects, or as raw text, so that a token can contain anything. */
export async function sign(
  pair: KeyPair,
  header: object | string,
  claims: object | string,
  algorithm: keyof typeof SIGNING = 'RS256',
): Promise<string> {
  const text = `${encoded(header)}.${encoded(claims)}`;
  const signature = await crypto.subtle.sign(SIGNING[algorithm], pair.privateKey, Buffer.from(text));
  return `${text}.${Buffer.from(signature).toString('base64url')}`;
}

export const goodClaims = {
  iss: ISSUER,
  aud: [AUDIENCE, 'other'],
  exp: IN_A_MINUTE,
  sub: 'alice',
};

export interface Issuer {
  rsa: KeyPair;
  elliptic: KeyPair;
  /** Its keys are on no server. */
  stranger: KeyPair;
  /** Each test has its own. */
  server: KeyServer;
  nowMs: number;
}

/** Call it once in a test file. */
export function useIssuer() {
  const issuer = { nowMs: NOW } as Issuer;
  beforeAll(async () => {
    issuer.rsa = await newPair();
    issuer.elliptic = await newPair('ES256');
    issuer.stranger = await newPair();
  });
  beforeEach(async () => {
    issuer.nowMs = NOW;
    issuer.server = await startKeyServer();
    issuer.server.keys = [
      await toJwk(issuer.rsa, 'rsa-1', 'RS256'),
      await toJwk(issuer.elliptic, 'ec-1', 'ES256'),
    ];
  });
  afterEach(() => issuer.server.stop());

  const token = (claims: object = {}, pair = issuer.rsa, kid: string | undefined = 'rsa-1') =>
    sign(pair, { alg: 'RS256', kid }, { ...goodClaims, ...claims });
  return {
    issuer,
    token,
    openIsolate: (options?: Partial<TokenVerifierOptions>) => createIsolate(issuer, options),
  };
}

/** One isolate. `settle` waits for its work after responses. */
function createIsolate(issuer: Issuer, options: Partial<TokenVerifierOptions> = {}) {
  const errors: unknown[] = [];
  const works: Promise<unknown>[] = [];
  const verifier = createTokenVerifier({
    algorithms: ['RS256', 'ES256'],
    jwksUrl: `${issuer.server.url}/keys`,
    issuer: ISSUER,
    audience: AUDIENCE,
    userClaim: 'sub',
    deadlineMs: 1_000,
    ...options,
    now: () => issuer.nowMs,
    onError: (error) => errors.push(error),
  });
  const verify = (token: string) => verifier.verify(token, (work) => works.push(work));
  return {
    errors,
    verify,
    userOf: async (token: string) => {
      const answer = await verify(token);
      return answer.kind === 'found' ? answer.record.userId : 'nobody';
    },
    settle: () => Promise.all(works.splice(0)),
  };
}

export interface KeyServer {
  readonly url: string;
  keys: JWK[];
  mode: 'good' | 'error' | 'hang' | 'garbage' | 'redirect';
  /** The delay before each answer. */
  delayMs: number;
  /** Good answers wait for it. */
  released: Promise<void>;
  /** The paths that were requested. */
  requests: string[];
  stop(): Promise<void>;
}

export async function startKeyServer(): Promise<KeyServer> {
  const state: Omit<KeyServer, 'url' | 'stop'> = {
    keys: [],
    mode: 'good',
    delayMs: 0,
    released: Promise.resolve(),
    requests: [],
  };
  const server = createServer((request, response) => {
    state.requests.push(request.url ?? '');
    if (state.mode === 'hang') return undefined;
    if (state.mode === 'error') return response.writeHead(500).end();
    if (state.mode === 'garbage') return response.end('{"keys": "none"}');
    if (state.mode === 'redirect') return response.writeHead(302, { location: '/elsewhere' }).end();
    const text = JSON.stringify({ keys: state.keys });
    const answer = () => response.end(text);
    return state.delayMs === 0 ? void state.released.then(answer) : setTimeout(answer, state.delayMs);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const stop = () =>
    new Promise<void>((resolve) => {
      server.closeAllConnections();
      server.close(() => resolve());
    });
  const { port } = server.address() as AddressInfo;
  return Object.assign(state, { url: `http://127.0.0.1:${port}`, stop });
}
