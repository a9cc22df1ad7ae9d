// The page for people, at /_weir/: log in, log out, and the frame that the page's own script fills. The script and its
// style are static assets (`page/`, `assets/`). The Worker itself only does what is in this folder.

import type { Child, FC } from 'hono/jsx';
import type { Actor } from '../admin/app.ts';
import { CHECK_ONLY, type Gate } from '../admin/auth.ts';
import type { Sessions } from '../admin/session.ts';
import { OWN_PREFIX } from '../core/matching/resource.ts';
import { hasAdminCredentials, isByScript, isRead } from '../http/credentials.ts';
import { readAtMost, render, renderError } from '../http/internal-requests.ts';
import { problem } from '../http/problem.ts';

// The two HTML documents of the page: the form to log in, which needs no script, and the frame of all views.

const FILES = `${OWN_PREFIX}/page`;

interface DocumentProps {
  readonly title: string;
  readonly head?: Child;
  readonly children?: Child;
}

const Document: FC<DocumentProps> = ({ title, head, children }) => (
  <html lang="en">
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content="light dark" />
      <title>{title}</title>
      <link rel="icon" href={`${FILES}/icon.svg`} />
      <link rel="stylesheet" href={`${FILES}/style.css`} />
      {head}
    </head>
    {children}
  </html>
);

const toHtml = (document: { toString(): string }): string => `<!doctype html>${document.toString()}\n`;

/** The answer that the gate gave. */
interface FailedLogIn {
  readonly status: number;
  readonly seconds: number;
}

interface FrameOptions {
  readonly actor: Actor;
  readonly csrf: string;
  /** False behind Cloudflare Access: there is nothing to log out of. */
  readonly hasSession: boolean;
}

/** `trouble`: what the person has to know first. */
const renderLogIn = (trouble?: string): string =>
  toHtml(
    <Document title="Log in · Weir">
      <body class="log-in">
        <main id="main">
          <h1>
            <img src={`${FILES}/icon.svg`} alt="" width="28" height="28" /> Weir
          </h1>
          {trouble && (
            <p class="notice bad" role="alert">
              {trouble}
            </p>
          )}
          <form method="post" action={`${OWN_PREFIX}/login`}>
            <label for="token">Admin token</label>
            <input
              id="token"
              name="token"
              type="password"
              autocomplete="current-password"
              required
              autofocus
              spellcheck={false}
            />
            <button type="submit">Log in</button>
            <p class="hint">
              <code>npm run dev</code> prints the token. In production it is the secret{' '}
              <code>ADMIN_TOKEN</code>, or one of <code>ADMIN_TOKENS</code>.
            </p>
          </form>
        </main>
      </body>
    </Document>,
  );

const HALF_LOGGED_OUT =
  'This browser is logged out. But Postgres does not answer: a copy of its cookie still works for up to eight hours. To end it, change the token.';

function reasonOf({ status, seconds }: FailedLogIn): string {
  if (status === 429) return `Too many failed attempts. Try again in ${Math.max(1, seconds)} s.`;
  if (status === 403) return 'This token may only check: it sees nothing here.';
  if (status === 503) return 'Cloudflare Access does not answer. A token still works.';
  return 'This token or session is not valid. Log in with an admin token.';
}

const VIEWS = [
  'overview',
  'rules',
  'callers',
  'violators',
  'denials',
  'explain',
  'history',
  'health',
  'cost',
] as const;

const titleOf = (view: string) => `${view.charAt(0).toUpperCase()}${view.slice(1)}`;

const Who: FC<Pick<FrameOptions, 'actor' | 'hasSession'>> = ({ actor, hasSession }) => (
  <form class="who" method="post" action={`${OWN_PREFIX}/logout`}>
    <span title={actor.role === 'admin' ? 'may change things' : 'may only read'}>
      {actor.name}
      {actor.role === 'read' ? ' (read only)' : ''}
    </span>
    {hasSession && (
      <button type="submit" class="quiet">
        Log out
      </button>
    )}
  </form>
);

const renderFrame = ({ actor, csrf, hasSession }: FrameOptions): string =>
  toHtml(
    <Document title="Weir" head={<script type="module" src={`${FILES}/app.js`}></script>}>
      <body data-name={actor.name} data-role={actor.role} data-csrf={csrf}>
        <a class="skip" href="#main">
          Skip to the content
        </a>
        <header>
          <a class="brand" href="#/overview">
            <img src={`${FILES}/icon.svg`} alt="" width="22" height="22" /> Weir
          </a>
          <nav aria-label="Views">
            {VIEWS.map((view) => (
              <a href={`#/${view}`}>{titleOf(view)}</a>
            ))}
          </nav>
          <Who actor={actor} hasSession={hasSession} />
        </header>
        <main id="main" tabindex={-1}>
          <p class="hint">Loading the page. If this stays, its files are not deployed: see docs/page.md.</p>
          <noscript>
            <p class="notice">This page needs JavaScript.</p>
          </noscript>
        </main>
        <div id="toasts" role="status" aria-live="polite"></div>
      </body>
    </Document>,
  );

const HOME = `${OWN_PREFIX}/`;
/** Enough for a token and the name of its field. */
const MAX_FORM_BYTES = 8 * 1024;

export interface PageOptions {
  readonly gate: Gate;
  readonly sessions: Sessions;
}

export function createPage({ gate, sessions }: PageOptions): (request: Request) => Promise<Response> {
  const show = async (opened: Request): Promise<Response> => {
    if (isByScript(opened)) return notOpened();
    const request = withoutPassword(opened);
    if (!hasAdminCredentials(request, sessions.cookie)) return document(request, renderLogIn());
    const actor = await gate(request);
    if (actor instanceof Response) return logInAgain(request, actor);
    const session = await sessions.read(request);
    const hasSession = session?.kind === 'open';
    const csrf = hasSession ? session.csrf : await sessions.csrfOfAccess(actor.name);
    return document(request, renderFrame({ actor, csrf, hasSession }));
  };

  const logIn = async (request: Request): Promise<Response> => {
    // Anybody can send a form, so Weir reads no more of it than a token needs.
    const form = await readAtMost(request, MAX_FORM_BYTES).catch(renderError);
    if (form instanceof Response) return form;
    const headers = new Headers({ Authorization: `Bearer ${tokenIn(form)}` });
    const address = request.headers.get('CF-Connecting-IP');
    if (address !== null) headers.set('CF-Connecting-IP', address);
    const actor = await gate(new Request(request.url, { headers }));
    if (actor instanceof Response) return logInAgain(request, actor);
    // The page shows nothing to a token of this role.
    if (actor.role === 'check') return logInAgain(request, render(CHECK_ONLY));
    return toHome(await sessions.open(actor.name));
  };

  /** Always deletes the cookie. If Postgres is down, the person must know that a copy of the cookie still works. */
  const logOut = (request: Request): Promise<Response> =>
    sessions.close(request).then(
      () => toHome(sessions.closed),
      () => {
        const answer = document(request, renderLogIn(HALF_LOGGED_OUT), 503);
        answer.headers.set('Set-Cookie', sessions.closed);
        return answer;
      },
    );

  return async (request) => {
    const { pathname } = new URL(request.url);
    const act = { [`${HOME}login`]: logIn, [`${HOME}logout`]: logOut }[pathname];
    if (!act) return isRead(request) ? show(request) : methodNotAllowed('GET, HEAD');
    // Somebody has reloaded the answer to a failed attempt.
    if (isRead(request)) return toHome();
    if (request.method !== 'POST') return methodNotAllowed('GET, HEAD, POST');
    if (isByScript(request)) return notOpened();
    return isFromAnotherSite(request) ? crossSite() : act(request);
  };
}

/** The browser may remember a password for this host, of Weir or of the API. The page's script could not use it. */
function withoutPassword({ url, method, headers: given }: Request): Request {
  const headers = new Headers(given);
  headers.delete('Authorization');
  return new Request(url, { method, headers });
}

/** Not a redirect, because the page shows the problem above the form. */
async function logInAgain(request: Request, answer: Response): Promise<Response> {
  const seconds = Number(answer.headers.get('Retry-After') ?? 0);
  return document(request, renderLogIn(reasonOf({ status: answer.status, seconds })), answer.status);
}

function tokenIn(form: Uint8Array): string {
  const text = new TextDecoder().decode(form);
  // A token has only characters that a header can hold.
  return (new URLSearchParams(text).get('token') ?? '').trim().replace(/[^\x21-\x7e]/g, '?');
}

/** Otherwise another site could log a visitor out, or in as somebody else. */
function isFromAnotherSite({ headers, url }: Request): boolean {
  const origin = headers.get('Origin');
  return (
    origin !== new URL(url).origin && (origin !== null || headers.get('Sec-Fetch-Site') !== 'same-origin')
  );
}

/** Allows only the page's own files, and calls to its own site. Allows no inline code of any kind. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

/**
 * Keeps the page out of reach of the window that opened it, even if that window shows a proxied page of the same host.
 * Only Chrome 131 and Safari 18.4 know the value for that, and later ones. To others it would be no policy at all. They
 * get `same-origin`, which lets in only documents that have the same policy.
 */
function openerPolicyFor({ headers }: Request): string {
  const agent = headers.get('User-Agent') ?? '';
  const chrome = Number(/Chrome\/(\d+)/.exec(agent)?.[1] ?? 0);
  const [, safari, update] = / Version\/(\d+)\.(\d+)[^(]* Safari\//.exec(agent) ?? [];
  const isKnown = chrome >= 131 || Number(safari ?? 0) * 100 + Number(update ?? 0) >= 1804;
  return isKnown ? 'noopener-allow-popups' : 'same-origin';
}

const document = (request: Request, html: string, status = 200): Response =>
  new Response(html, {
    status,
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Cache-Control': 'no-store',
      'Content-Security-Policy': POLICY,
      'Cross-Origin-Opener-Policy': openerPolicyFor(request),
      // Not `no-referrer`: browsers would then hide the origin of the form, too.
      'Referrer-Policy': 'same-origin',
      'X-Content-Type-Options': 'nosniff',
    },
  });

const toHome = (cookie?: string): Response =>
  new Response(null, {
    status: 303,
    headers: { Location: HOME, 'Cache-Control': 'no-store', ...(cookie && { 'Set-Cookie': cookie }) },
  });

const methodNotAllowed = (allowed: string) =>
  problem(
    { status: 405, code: 'method-not-allowed', title: 'This method does nothing here' },
    { Allow: allowed },
  );

const crossSite = () => problem({ status: 403, code: 'cross-site', title: 'Another site asked for this' });

/** The page contains the CSRF token, so no script may read it, and no service worker may pass it on. */
const notOpened = () =>
  problem({
    status: 403,
    code: 'not-a-navigation',
    title: 'Only a person can open the page, not a script',
    detail:
      'If you have opened it, a service worker of this site asked for it: reload with Shift, or set ADMIN_HOST.',
  });
