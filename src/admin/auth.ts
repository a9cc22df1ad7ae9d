// Authentication of the admin route: bearer tokens, sessions of the page, and Cloudflare Access if configured. Without
// a valid credential every path and method gets the same answer, so that strangers learn nothing about the routes.

import type { MiddlewareHandler } from 'hono';
import type { JWTPayload, JWTVerifyOptions } from 'jose';
import { isSameText, textFromBase64 } from '../core/digest.ts';
import { OWN_PREFIX } from '../core/matching/resource.ts';
import {
  cookieIn,
  hasAdminCredentials,
  isByScript,
  isRead,
  parseAuthorization,
} from '../http/credentials.ts';
import { createTokenFinder, render, tooManyAttempts, UNAUTHORIZED } from '../http/internal-requests.ts';
import { type Problem, problem } from '../http/problem.ts';
import { createKeyVerifier } from '../identity/jwt.ts';
import type { AccessOptions, Actor, AdminEnv, AdminServices, AdminToken } from './app.ts';
import { createAttemptGuard } from './failed-attempts.ts';
import { createSessions, type Sessions } from './session.ts';

// Cloudflare Access in front of the admin route: its signed assertion names the person.

const DEADLINE_MS = 2_000;

export type AccessVerdict =
  | { readonly kind: 'actor'; readonly actor: Actor }
  | { readonly kind: 'refused' }
  /** The keys are not known and cannot be fetched. */
  | { readonly kind: 'unavailable' };

export interface AccessVerifierOptions extends AccessOptions {
  readonly now: () => number;
  readonly deadlineMs?: number;
}

export function createAccessVerifier(options: AccessVerifierOptions) {
  const { now, audience, admins, deadlineMs = DEADLINE_MS } = options;
  const issuer = options.teamDomain.replace(/(?<!\/)\/+$/, '');
  const verify = createKeyVerifier({ url: `${issuer}/cdn-cgi/access/certs`, now, deadlineMs });
  const expected = (): JWTVerifyOptions => ({
    issuer,
    audience,
    algorithms: ['RS256', 'ES256'],
    requiredClaims: ['exp'],
    currentDate: new Date(now()),
  });

  return async (jwt: string): Promise<AccessVerdict> => {
    try {
      const payload = await verify(jwt, expected());
      return payload ? toAccessVerdict(payload, admins) : { kind: 'unavailable' };
    } catch {
      return { kind: 'refused' };
    }
  };
}

function toAccessVerdict({ email, common_name }: JWTPayload, admins: readonly string[]): AccessVerdict {
  const name = [email, common_name].find((claim) => typeof claim === 'string' && claim !== '');
  if (typeof name !== 'string') return { kind: 'refused' };
  const isAdmin = admins.some((admin) => admin.toLowerCase() === name.toLowerCase());
  return { kind: 'actor', actor: { name, role: isAdmin ? 'admin' : 'read' } };
}

/** Paths that role `read` may POST to, because they only ask. */
const QUESTIONS: readonly string[] = [`${OWN_PREFIX}/admin/explain`];

/** Returns the actor, or the refusal. */
export type Gate = (request: Request) => Promise<Actor | Response>;

type Verdict = AccessVerdict | { readonly kind: 'answered'; readonly problem: Problem };

/**
 * A browser sends cookies, Basic passwords and the credentials of Access by itself, for any site. So changes, and all
 * that a script asks for, need this value, too. Only a person who opens the page gets it: other sites cannot read it, nor
 * can scripts on proxied pages of the same host.
 */
const CSRF_HEADER = 'X-Weir-Csrf';

/** Without `endedSessions`, logging out only deletes the cookie. */
export type GateServices = Pick<AdminServices, 'auth' | 'regions' | 'deadlineMs' | 'sessionSecret' | 'now'> &
  Partial<Pick<AdminServices, 'endedSessions' | 'guardAttempt'>>;

export const sessionsOf = ({ auth, sessionSecret = '', endedSessions, now }: GateServices): Sessions =>
  createSessions({
    tokens: auth.tokens,
    secret: sessionSecret,
    ended: endedSessions,
    adminHost: auth.adminHost,
    now,
  });

export function createGate(services: GateServices, sessions: Sessions = sessionsOf(services)): Gate {
  const { auth, now } = services;
  const guardAttempt = services.guardAttempt ?? createAttemptGuard(services);
  const findToken = createTokenFinder(auth.tokens);
  const verifyAccess = auth.access && createAccessVerifier({ ...auth.access, now });

  const identify = async (request: Request): Promise<Verdict> => {
    const token = tokenOf(request, sessions);
    if (token === 'script') return { kind: 'answered', problem: NO_PASSWORD };
    if (token !== undefined) return toVerdict(await findToken(token.text));
    const assertion = request.headers.get('Cf-Access-Jwt-Assertion');
    if (verifyAccess && assertion !== null) return byAccess(await verifyAccess(assertion), sessions, request);
    return (await bySession(sessions, request)) ?? { kind: 'refused' };
  };

  const unauthorized = (request: Request) => problem(UNAUTHORIZED, challengeTo(request, auth.adminHost));

  return async (request) => {
    if (!hasAdminCredentials(request, sessions.cookie)) return unauthorized(request);
    const address = request.headers.get('CF-Connecting-IP');
    const verdict = await guardAttempt({ address, look: () => identify(request) });
    if (verdict.kind === 'waiting') return tooManyAttempts(verdict.waitMs);
    if (verdict.kind === 'unavailable') return render(ACCESS_UNAVAILABLE);
    if (verdict.kind === 'answered') return render(verdict.problem);
    return verdict.kind === 'actor' ? verdict.actor : unauthorized(request);
  };
}

export function createAuth(gate: Gate): MiddlewareHandler<AdminEnv> {
  return async (c, next) => {
    const request = c.req.raw;
    const actor = await gate(request);
    if (actor instanceof Response) return actor;
    if (actor.role === 'check') return render(CHECK_ONLY);
    if (actor.role === 'read' && !isRead(request) && !isQuestion(request)) return render(READ_ONLY);
    if (!isRead(request) && isFromAnotherSite(request)) return render(CROSS_SITE);
    c.set('actor', actor);
    return next();
  };
}

const toVerdict = (token: AdminToken | undefined): AccessVerdict =>
  token ? { kind: 'actor', actor: { name: token.name, role: token.role } } : { kind: 'refused' };

/** An expired session or a missing CSRF token is no guess, so it does not count as a failed attempt. */
async function bySession(sessions: Sessions, request: Request): Promise<Verdict | undefined> {
  const session = await sessions.read(request);
  if (session?.kind === 'ended') return { kind: 'answered', problem: SESSION_ENDED };
  if (session?.kind !== 'open') return session;
  // While Postgres is down, people must still see what happens. Changes wait until Postgres confirms the session.
  const isChange = !isRead(request) && !isQuestion(request);
  if (isChange && !session.isConfirmed) return { kind: 'answered', problem: SESSION_UNCONFIRMED };
  if ((!isRead(request) || isByScript(request)) && !hasCsrf(request, session.csrf))
    return { kind: 'answered', problem: NO_CSRF };
  return { kind: 'actor', actor: session.actor };
}

const hasCsrf = ({ headers }: Request, csrf: string) => isSameText(headers.get(CSRF_HEADER) ?? '', csrf);

/** Programs that Access lets in send no `Sec-Fetch-Dest`, and no other site can make them ask. */
async function byAccess(verdict: AccessVerdict, sessions: Sessions, request: Request): Promise<Verdict> {
  const isOpened = isRead(request) && !isByScript(request);
  if (verdict.kind !== 'actor' || isOpened || !request.headers.has('Sec-Fetch-Dest')) return verdict;
  const csrf = await sessions.csrfOfAccess(verdict.actor.name);
  return hasCsrf(request, csrf) ? verdict : { kind: 'answered', problem: NO_CSRF };
}

/** Undefined: no token was given. A header that cannot be read is a wrong token. */
function tokenOf(request: Request, { cookie }: Sessions): { readonly text: string } | 'script' | undefined {
  const header = request.headers.get('Authorization');
  if (header === null) return undefined;
  const { scheme, credentials } = parseAuthorization(header);
  if (scheme === 'bearer') return { text: credentials };
  // A browser that was once asked for the token sends it with every request. The session takes precedence.
  if (scheme === 'basic' && cookieIn(request, cookie) !== undefined) return undefined;
  // Browsers add Basic credentials by themselves, so these must not allow changes, nor a script to read.
  if (scheme === 'basic' && isByScript(request)) return 'script';
  return { text: scheme === 'basic' && isRead(request) ? passwordOf(credentials) : '' };
}

function passwordOf(base64: string): string {
  const text = textFromBase64(base64);
  return text.slice(text.indexOf(':') + 1);
}

const isQuestion = ({ method, url }: Request) =>
  method === 'POST' && QUESTIONS.includes(new URL(url).pathname);

/** Behind Access a cookie authenticates the browser, which also sends it when another site makes the request. */
function isFromAnotherSite({ headers, url }: Request): boolean {
  const origin = headers.get('Origin');
  return !headers.has('Authorization') && origin !== null && origin !== new URL(url).origin;
}

/**
 * Asks for the token only if a person opens the address in a browser. Scripts get no such prompt. On a host where
 * requests are proxied nobody does: a browser gives the password to every path of the host that names the same realm.
 */
const challengeTo = ({ headers }: Request, adminHost: string | undefined) => ({
  'WWW-Authenticate':
    adminHost !== undefined && headers.get('Sec-Fetch-Mode') === 'navigate' ? 'Basic realm="weir"' : 'Bearer',
});

export const READ_ONLY: Problem = {
  status: 403,
  code: 'read-only-token',
  title: 'This token may only read',
};
const SESSION_ENDED: Problem = {
  status: 401,
  code: 'session-ended',
  title: 'The session has ended: log in again',
};
const SESSION_UNCONFIRMED: Problem = {
  status: 503,
  code: 'session-unconfirmed',
  title: 'Postgres does not answer, so the session cannot be confirmed',
  detail: 'Reading goes on. For a change, use a bearer token, or wait.',
};
const NO_CSRF: Problem = {
  status: 403,
  code: 'csrf',
  title: 'The request lacks the CSRF token of the session',
  detail: `Send it as ${CSRF_HEADER}, or use a bearer token instead of a session.`,
};
const NO_PASSWORD: Problem = {
  status: 403,
  code: 'csrf',
  title: 'A script cannot use a password that the browser remembers',
  detail: 'Log in at the page, or send a bearer token.',
};
export const CHECK_ONLY: Problem = {
  status: 403,
  code: 'check-only-token',
  title: 'This token may only check',
};
const CROSS_SITE: Problem = {
  status: 403,
  code: 'cross-site',
  title: 'Another site asked for this change',
};
const ACCESS_UNAVAILABLE: Problem = {
  status: 503,
  code: 'access-unavailable',
  title: 'Cloudflare Access does not answer',
  detail: 'Its keys could not be fetched. A bearer token still works.',
};
