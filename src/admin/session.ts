// The session of a person at the page: a cookie that Weir signs when somebody logs in with a token. Weir derives the
// key of the signature from that token, so changing or removing the token ends its sessions. Weir stores only sessions
// that end early.

import { sql } from 'drizzle-orm';
import { createBoundedCache } from '../core/bounded-cache.ts';
import {
  createSigner,
  digest,
  isSameText,
  partsOfSigned,
  randomId,
  textFromBase64,
  textToBase64Url,
  toBase64Url,
} from '../core/digest.ts';
import { number, object, type Shaped, text } from '../core/shape.ts';
import { cookieIn, type SessionCookie, sessionCookieOf } from '../http/credentials.ts';
import { withDeadline } from '../rules/edge/published.ts';
import type { Database } from '../rules/tables/repository.ts';
import type { Actor, AdminToken } from './app.ts';

/** A working day. */
export const SESSION_MS = 8 * 3_600_000;

export type SessionVerdict =
  | {
      readonly kind: 'open';
      readonly actor: Actor;
      readonly csrf: string;
      /** False: Weir could not find out whether the person has logged out. */
      readonly isConfirmed: boolean;
    }
  /** The session was valid, but its time is over, or the person has logged out. */
  | { readonly kind: 'ended' }
  | { readonly kind: 'refused' };

export interface Sessions {
  readonly cookie: SessionCookie;
  /** The value of Set-Cookie that deletes the cookie. */
  readonly closed: string;
  /** The value of Set-Cookie for somebody who has shown this token. */
  open(name: string): Promise<string>;
  /** Undefined: the request has no session. */
  read(request: Request): Promise<SessionVerdict | undefined>;
  /** Ends the session of this request, and with it every copy of its cookie. Rejects if the end cannot be stored. */
  close(request: Request): Promise<void>;
  /** The CSRF token of a person whom Cloudflare Access has let in. Access has no session of Weir. */
  csrfOfAccess(name: string): Promise<string>;
}

export interface SessionOptions {
  readonly tokens: readonly AdminToken[];
  /** A part of the keys, so that nobody can test guessed tokens against a stolen cookie. */
  readonly secret: string;
  readonly ended?: EndedSessions | undefined;
  /** The host that alone answers the page; undefined: every host does. */
  readonly adminHost?: string | undefined;
  readonly now: () => number;
}

const claimsOf = object({ name: text, id: text, expiresAtMs: number });
type Claims = Shaped<typeof claimsOf>;

export function createSessions({ tokens, secret, ended, adminHost, now }: SessionOptions): Sessions {
  const cookie = sessionCookieOf(adminHost);
  const signerOf = async ({ token }: AdminToken) =>
    createSigner(await digest('SHA-256', JSON.stringify(['weir session', token, secret])));
  const find = (name: string) => tokens.find((token) => token.name === name);

  /** The claims of the cookie, if its signature is valid. */
  const verify = async (session: string) => {
    const [payload = '', signature = ''] = partsOfSigned(session) ?? [];
    const claims = parseClaims(payload);
    const token = claims && find(claims.name);
    if (!token) return undefined;
    const sign = await signerOf(token);
    return isSameText(toBase64Url(await sign(payload)), signature) ? { claims, token, sign } : undefined;
  };

  return {
    cookie,
    closed: `${cookie.name}=; Max-Age=0; ${cookie.attributes}`,

    async open(name) {
      const token = find(name);
      if (!token) throw new Error(`there is no token ${name}`);
      const claims: Claims = { name, id: randomId(), expiresAtMs: now() + SESSION_MS };
      const payload = textToBase64Url(JSON.stringify(claims));
      const sign = await signerOf(token);
      const signature = toBase64Url(await sign(payload));
      return `${cookie.name}=${payload}.${signature}; Max-Age=${SESSION_MS / 1_000}; ${cookie.attributes}`;
    },

    async read(request) {
      const session = cookieIn(request, cookie);
      if (session === undefined) return undefined;
      const verified = await verify(session);
      if (!verified) return { kind: 'refused' };
      const { claims, token, sign } = verified;
      if (claims.expiresAtMs <= now()) return { kind: 'ended' };
      const isEnded = ended ? await ended.isEnded(claims.id) : false;
      if (isEnded) return { kind: 'ended' };
      const actor = { name: token.name, role: token.role };
      const csrf = toBase64Url(await sign(`csrf ${claims.id}`));
      return { kind: 'open', actor, csrf, isConfirmed: isEnded === false };
    },

    async close(request) {
      const session = cookieIn(request, cookie);
      const verified = session === undefined ? undefined : await verify(session);
      if (verified) await ended?.end(verified.claims.id, verified.claims.expiresAtMs);
    },

    async csrfOfAccess(name) {
      const sign = await createSigner(await digest('SHA-256', JSON.stringify(['weir access', secret])));
      return toBase64Url(await sign(`csrf ${name}`));
    },
  };
}

function parseClaims(payload: string): Claims | undefined {
  try {
    return claimsOf(JSON.parse(textFromBase64(payload)), 'session', []);
  } catch {
    return undefined;
  }
}

// Sessions that ended by logging out. Weir keeps them in Postgres and not in KV, because KV caches missing keys: a
// copied cookie would work for another minute or more. The gateway never reads them.

export interface EndedSessions {
  /** Rejects if Postgres could not store it. */
  end(id: string, expiresAtMs: number): Promise<void>;
  /** Undefined: not known, because Postgres does not answer. */
  isEnded(id: string): Promise<boolean | undefined>;
}

/** A database that slept needs a few hundred milliseconds for its first answer. */
const DEADLINE_MS = 2_000;
/** The most sessions in memory, which are used while Postgres is down. */
const MAX_KNOWN = 1_000;

export interface EndedSessionsOptions {
  readonly database: Database;
  readonly now: () => number;
  readonly deadlineMs?: number;
}

export function createEndedSessions(options: EndedSessionsOptions): EndedSessions {
  const { database, now, deadlineMs = DEADLINE_MS } = options;
  const known = createBoundedCache<true>(MAX_KNOWN);
  const inTime = <T>(work: PromiseLike<T>) => withDeadline(AbortSignal.timeout(deadlineMs), work);

  return {
    async end(id, expiresAtMs) {
      known.set(id, true, expiresAtMs);
      // Also deletes expired rows, so that no other job has to.
      await inTime(
        database.execute(sql`
          with over as (delete from weir.ended_sessions where expires_at <= ${toMoment(now())})
          insert into weir.ended_sessions (id, expires_at) values (${id}, ${toMoment(expiresAtMs)})
          on conflict do nothing`),
      );
    },

    async isEnded(id) {
      if (known.get(id, now())) return true;
      try {
        const query = sql`select 1 from weir.ended_sessions where id = ${id}`;
        const { rows } = await inTime(database.execute(query));
        return rows.length > 0;
      } catch {
        return undefined;
      }
    },
  };
}

const toMoment = (ms: number) => new Date(ms).toISOString();
