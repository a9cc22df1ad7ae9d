// The two HTML documents of the page: the form to log in, which needs no script, and the frame of all views.
import type { Actor } from '../admin/services.ts';
import { OWN_PREFIX } from '../core/matching/resource.ts';
import { plainPath } from '../core/page-paths.ts';
import { Document, FILES, titleOf, toHtml, Who } from './plain/layout.tsx';

/** The answer that the gate gave. */
export interface FailedLogIn {
  readonly status: number;
  readonly seconds: number;
}

export interface FrameOptions {
  readonly actor: Actor;
  readonly csrf: string;
  /** False behind Cloudflare Access: there is nothing to log out of. */
  readonly hasSession: boolean;
}

/** `trouble`: what the person has to know first. */
export const renderLogIn = (trouble?: string): string =>
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

export const HALF_LOGGED_OUT =
  'This browser is logged out. But Postgres does not answer: a copy of its cookie still works for up to eight hours. To end it, change the token.';

export function reasonOf({ status, seconds }: FailedLogIn): string {
  if (status === 429) return `Too many failed attempts. Try again in ${Math.max(1, seconds)} s.`;
  if (status === 403) return 'This token may only check: it sees nothing here.';
  if (status === 503) return 'Cloudflare Access does not answer. A token still works.';
  return 'This token or session is not valid. Log in with an admin token.';
}

const VIEWS = ['overview', 'rules', 'callers', 'violators', 'explain', 'history', 'health', 'cost'] as const;

const withoutScript = (
  <noscript>
    <meta http-equiv="refresh" content={`0; url=${plainPath('overview')}`} />
  </noscript>
);

export const renderFrame = ({ actor, csrf, hasSession }: FrameOptions): string =>
  toHtml(
    <Document
      title="Weir"
      head={
        <>
          <script type="module" src={`${FILES}/app.js`}></script>
          {withoutScript}
        </>
      }
    >
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
            <p class="notice">
              The live views need JavaScript. <a href={plainPath('overview')}>Plain tables</a> do not, and the{' '}
              <a href={`${OWN_PREFIX}/admin/docs`}>admin API</a> changes all that the page can.
            </p>
          </noscript>
        </main>
        <div id="toasts" role="status" aria-live="polite"></div>
      </body>
    </Document>,
  );
