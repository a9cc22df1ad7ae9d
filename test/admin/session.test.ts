// The session of a person at the page: what its cookie allows, and what it does not.

import { Hono } from 'hono';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AdminServices, AdminToken } from '../../src/admin/app.ts';
import { createAuth, createGate, sessionsOf } from '../../src/admin/auth.ts';
import { createEndedSessions, type EndedSessions, SESSION_MS } from '../../src/admin/session.ts';
import { createPage } from '../../src/page/page.tsx';
import { startDatabase, type TestDatabase } from '../rules/database.ts';

const ALICE: AdminToken = { name: 'alice', token: 'a-token-that-may-do-all', role: 'admin' };
const CAROL: AdminToken = { name: 'carol', token: 'a-token-that-may-only-read', role: 'read' };
const SITE = 'https://weir.test';

interface Setting {
  readonly tokens?: readonly AdminToken[];
  readonly secret?: string;
  readonly endedSessions?: EndedSessions;
}

/** One isolate without Redis, so that only its memory counts failures. */
function openIsolate({ tokens = [ALICE, CAROL], secret = 'postgres://one', endedSessions }: Setting = {}) {
  const clock = { ms: 1_900_000_000_000 };
  const services = {
    auth: { tokens },
    regions: [],
    deadlineMs: 100,
    sessionSecret: secret,
    now: () => clock.ms,
    ...(endedSessions && { endedSessions }),
  } satisfies Partial<AdminServices>;
  const sessions = sessionsOf(services);
  const gate = createGate(services, sessions);
  const app = new Hono();
  app.use(createAuth(gate));
  app.all('*', (c) => c.text('done'));
  const page = createPage({ gate, sessions });
  const logIn = (token: string, headers: Record<string, string> = {}) =>
    page(
      new Request(`${SITE}/_weir/login`, {
        method: 'POST',
        headers: { Origin: SITE, 'Content-Type': 'application/x-www-form-urlencoded', ...headers },
        body: new URLSearchParams({ token }),
      }),
    );
  const cookieOf = async (token: string) => {
    const answer = await logIn(token);
    return (answer.headers.get('Set-Cookie') ?? '').split(';')[0] ?? '';
  };
  const ask = async (headers: Record<string, string>, method = 'GET', path = '/_weir/admin/rules') =>
    app.fetch(new Request(`${SITE}${path}`, { method, headers }));
  const csrfOf = async (cookie: string) => {
    const frame = await (await page(new Request(`${SITE}/_weir/`, { headers: { Cookie: cookie } }))).text();
    return /data-csrf="([^"]+)"/.exec(frame)?.[1] ?? '';
  };
  const logOut = (cookie: string) =>
    page(new Request(`${SITE}/_weir/logout`, { method: 'POST', headers: { Origin: SITE, Cookie: cookie } }));
  return { clock, page, logIn, logOut, cookieOf, ask, csrfOf };
}

const codeOf = async (answer: Response) => ((await answer.json()) as { code: string }).code;

describe('logging in', () => {
  it('sets a cookie that scripts cannot read, for Weir’s own paths alone, and only over TLS', async () => {
    const answer = await openIsolate().logIn(ALICE.token);
    expect(answer.status).toBe(303);
    expect(answer.headers.get('Location')).toBe('/_weir/');
    const [, ...attributes] = (answer.headers.get('Set-Cookie') ?? '').split('; ');
    expect(attributes).toEqual(['Max-Age=28800', 'Path=/_weir', 'HttpOnly', 'Secure', 'SameSite=Strict']);
  });

  it('with a wrong token shows the form again, and after ten wrong tokens says how long to wait', async () => {
    const { logIn } = openIsolate();
    const wrong = await logIn('a-token-that-nobody-has');
    expect(wrong.status).toBe(401);
    expect(await wrong.text()).toContain('is not valid');
    for (let i = 0; i < 9; i += 1) await logIn('another-token-that-nobody-has');
    const slowed = await logIn(ALICE.token);
    expect(slowed.status).toBe(429);
    expect(await slowed.text()).toContain('Too many failed attempts. Try again in');
  });

  it('is refused if another site sends the form', async () => {
    const { logIn } = openIsolate();
    for (const headers of [{ Origin: 'https://evil.test' }, { Origin: 'null' }]) {
      const answer = await logIn(ALICE.token, headers);
      expect(answer.status).toBe(403);
      expect(answer.headers.has('Set-Cookie')).toBe(false);
    }
  });

  it('answers 401 to a token that no header could hold', async () => {
    expect((await openIsolate().logIn('new\nline-and-ü-in-it')).status).toBe(401);
  });
});

describe('a session', () => {
  it('may read if its token may', async () => {
    const isolate = openIsolate();
    const cookie = await isolate.cookieOf(ALICE.token);
    expect((await isolate.ask({ Cookie: `other=1; ${cookie}` })).status).toBe(200);
  });

  it('answers a script in a browser only with its CSRF token', async () => {
    const isolate = openIsolate();
    const cookie = await isolate.cookieOf(ALICE.token);
    const csrf = await isolate.csrfOf(cookie);
    for (const by of [
      { 'Sec-Fetch-Dest': 'empty' },
      { 'Sec-Fetch-Dest': 'iframe' },
      { 'Sec-Fetch-Dest': 'document', 'Service-Worker-Navigation-Preload': 'true' },
    ] as Record<string, string>[]) {
      const without = await isolate.ask({ Cookie: cookie, ...by });
      expect([without.status, await codeOf(without)]).toEqual([403, 'csrf']);
      expect((await isolate.ask({ Cookie: cookie, 'X-Weir-Csrf': csrf, ...by })).status).toBe(200);
      const page = await isolate.page(
        new Request(`${SITE}/_weir/`, { headers: { Cookie: cookie, 'X-Weir-Csrf': csrf, ...by } }),
      );
      expect([page.status, await codeOf(page)]).toEqual([403, 'not-a-navigation']);
    }
    expect((await isolate.ask({ Cookie: cookie, 'Sec-Fetch-Dest': 'document' })).status).toBe(200);
  });

  it('changes something only with its CSRF token', async () => {
    const isolate = openIsolate();
    const cookie = await isolate.cookieOf(ALICE.token);
    const csrf = await isolate.csrfOf(cookie);
    const without = await isolate.ask({ Cookie: cookie }, 'POST');
    expect([without.status, await codeOf(without)]).toEqual([403, 'csrf']);
    const others = await isolate.csrfOf(await isolate.cookieOf(ALICE.token));
    expect((await isolate.ask({ Cookie: cookie, 'X-Weir-Csrf': others }, 'POST')).status).toBe(403);
    expect((await isolate.ask({ Cookie: cookie, 'X-Weir-Csrf': csrf }, 'POST')).status).toBe(200);
  });

  it('refuses a change that another site asks for, even with its CSRF token', async () => {
    const isolate = openIsolate();
    const cookie = await isolate.cookieOf(ALICE.token);
    const csrf = await isolate.csrfOf(cookie);
    const headers = { Cookie: cookie, 'X-Weir-Csrf': csrf, Origin: 'https://evil.test' };
    const answer = await isolate.ask(headers, 'POST');
    expect([answer.status, await codeOf(answer)]).toEqual([403, 'cross-site']);
  });

  it('of a token that may only read changes nothing', async () => {
    const isolate = openIsolate();
    const cookie = await isolate.cookieOf(CAROL.token);
    const answer = await isolate.ask({ Cookie: cookie, 'X-Weir-Csrf': await isolate.csrfOf(cookie) }, 'POST');
    expect([answer.status, await codeOf(answer)]).toEqual([403, 'read-only-token']);
  });

  it('ends after exactly eight hours, and this is not a failed attempt', async () => {
    const isolate = openIsolate();
    const cookie = await isolate.cookieOf(ALICE.token);
    isolate.clock.ms += SESSION_MS - 1;
    expect((await isolate.ask({ Cookie: cookie })).status).toBe(200);
    isolate.clock.ms += 1;
    for (let i = 0; i < 20; i += 1) {
      const answer = await isolate.ask({ Cookie: cookie });
      expect([answer.status, await codeOf(answer)]).toEqual([401, 'session-ended']);
    }
  });

  it('is valid in other isolates with the same secrets', async () => {
    const cookie = await openIsolate().cookieOf(ALICE.token);
    expect((await openIsolate().ask({ Cookie: cookie })).status).toBe(200);
  });

  it.each([
    ['its token was changed', { tokens: [{ ...ALICE, token: 'another-token-for-alice' }] }],
    ['its token was removed', { tokens: [CAROL] }],
    ['the database is another one', { secret: 'postgres://two' }],
  ])('is refused once %s', async (_, setting) => {
    const cookie = await openIsolate().cookieOf(ALICE.token);
    expect((await openIsolate(setting).ask({ Cookie: cookie })).status).toBe(401);
  });

  it('that was tampered with is refused, and counts as a failed attempt', async () => {
    const isolate = openIsolate();
    const cookie = await isolate.cookieOf(CAROL.token);
    const [payload = '', signature = ''] = cookie.slice('__Secure-weir='.length).split('.');
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString());
    const forged = Buffer.from(JSON.stringify({ ...claims, name: 'alice' })).toString('base64url');
    const whole = `${payload}.${signature}`;
    for (const value of [`${forged}.${signature}`, payload, `${payload}.`, '.', 'x.y', `${payload}.%%%`])
      expect((await isolate.ask({ Cookie: `__Secure-weir=${value}` })).status, value).toBe(401);
    for (const value of [`${whole}.1`, `${whole}.`])
      expect((await isolate.ask({ Cookie: `__Secure-weir=${value}` })).status, value).toBe(401);
    for (let i = 0; i < 2; i += 1) await isolate.ask({ Cookie: '__Secure-weir=x.y' });
    expect((await isolate.ask({ Cookie: cookie })).status).toBe(429);
  });

  it('takes precedence over a password that the browser remembers', async () => {
    const isolate = openIsolate();
    const cookie = await isolate.cookieOf(ALICE.token);
    const headers = {
      Cookie: cookie,
      'X-Weir-Csrf': await isolate.csrfOf(cookie),
      Authorization: `Basic ${btoa(':old')}`,
    };
    expect((await isolate.ask(headers, 'POST')).status).toBe(200);
  });
});

describe('logging out', () => {
  let db: TestDatabase;
  beforeAll(async () => {
    db = await startDatabase();
  });
  afterAll(() => db[Symbol.asyncDispose]());
  /** Each isolate has its own memory. */
  const anIsolate = () =>
    openIsolate({
      endedSessions: createEndedSessions({ database: db.database, now: () => 1_900_000_000_000 }),
    });
  const rowsOf = async () => {
    const { rows } = await db.database.execute('select * from weir.ended_sessions');
    return rows.length;
  };

  it('ends the session in every isolate, even for a copy of the cookie, and ends no other session', async () => {
    const [here, elsewhere] = [anIsolate(), anIsolate()];
    const cookie = await here.cookieOf(ALICE.token);
    const another = await here.cookieOf(ALICE.token);
    const csrf = await here.csrfOf(cookie);
    expect((await elsewhere.ask({ Cookie: cookie })).status).toBe(200);
    const answer = await here.logOut(cookie);
    expect([answer.status, answer.headers.get('Location')]).toEqual([303, '/_weir/']);
    for (const isolate of [here, elsewhere])
      for (const method of ['GET', 'POST']) {
        const refused = await isolate.ask({ Cookie: cookie, 'X-Weir-Csrf': csrf }, method);
        expect([refused.status, await codeOf(refused)]).toEqual([401, 'session-ended']);
      }
    expect((await elsewhere.ask({ Cookie: another })).status).toBe(200);
  });

  it('deletes the rows of sessions that have expired', async () => {
    const past = createEndedSessions({ database: db.database, now: () => 0 });
    await past.end('an-old-one', 1_900_000_000_000);
    const before = await rowsOf();
    const isolate = anIsolate();
    await isolate.logOut(await isolate.cookieOf(ALICE.token));
    expect(await rowsOf()).toBe(before);
  });

  it('stores nothing for a cookie that is not Weir’s', async () => {
    const before = await rowsOf();
    expect((await anIsolate().logOut('__Secure-weir=x.y')).status).toBe(303);
    expect(await rowsOf()).toBe(before);
  });

  it('without Postgres takes effect in this isolate, and warns that a copy of the cookie still works', async () => {
    const [here, elsewhere] = [anIsolate(), anIsolate()];
    const cookie = await here.cookieOf(ALICE.token);
    const csrf = await here.csrfOf(cookie);
    await db.stopPostgres();
    const answer = await here.logOut(cookie);
    expect(answer.status).toBe(503);
    expect(answer.headers.get('Set-Cookie')).toContain('__Secure-weir=; Max-Age=0');
    expect(await answer.text()).toContain('a copy of its cookie still works');
    expect((await here.ask({ Cookie: cookie })).status).toBe(401);
    // Another isolate does not know of the log-out. There, the session can still read, but not change anything.
    expect((await elsewhere.ask({ Cookie: cookie })).status).toBe(200);
    const change = await elsewhere.ask({ Cookie: cookie, 'X-Weir-Csrf': csrf }, 'POST');
    expect([change.status, await codeOf(change)]).toEqual([503, 'session-unconfirmed']);
  });
});

describe('the page’s documents', () => {
  const openerPolicyOf = async (agent: string) => {
    const answer = await openIsolate().page(
      new Request(`${SITE}/_weir/`, { headers: { 'User-Agent': agent } }),
    );
    return answer.headers.get('Cross-Origin-Opener-Policy');
  };

  it('load nothing from elsewhere and run no inline code', async () => {
    const { page, cookieOf } = openIsolate();
    const Cookie = await cookieOf(ALICE.token);
    for (const headers of [{}, { Cookie }] as Record<string, string>[]) {
      const answer = await page(new Request(`${SITE}/_weir/`, { headers }));
      expect(answer.headers.get('Content-Security-Policy')).toContain(
        "default-src 'none'; script-src 'self'; style-src 'self'",
      );
      const html = await answer.text();
      expect(html).not.toMatch(/<script(?![^>]* src="\/_weir\/page\/)|<style| style=| on\w+=|https?:/);
    }
  });

  it('ask for the token if the browser only remembers a password: no script could use that', async () => {
    const headers = { Authorization: `Basic ${btoa(`anybody:${ALICE.token}`)}` };
    const answer = await openIsolate().page(new Request(`${SITE}/_weir/`, { headers }));
    expect(answer.status).toBe(200);
    expect(await answer.text()).toContain('Admin token');
  });

  it.each([
    [
      'Chrome 131',
      'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36',
    ],
    [
      'Safari 18.4',
      'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.4 Safari/605.1.15',
    ],
    [
      'Safari 26.0',
      'Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1',
    ],
  ])('are out of reach of every opener in %s', async (_, agent) => {
    expect(await openerPolicyOf(agent)).toBe('noopener-allow-popups');
  });

  it.each([
    [
      'Chrome 130',
      'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36',
    ],
    [
      'Safari 18.3',
      'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.3 Safari/605.1.15',
    ],
    [
      'Chrome on iOS',
      'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/131.0.0.0 Mobile/15E148 Safari/604.1',
    ],
    ['Firefox', 'Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0'],
    ['an unknown browser', ''],
  ])(
    'are out of reach of openers without the same policy in %s, which knows no stricter one',
    async (_, agent) => {
      expect(await openerPolicyOf(agent)).toBe('same-origin');
    },
  );

  it('remove the cookie at log-out', async () => {
    const { page } = openIsolate();
    const request = new Request(`${SITE}/_weir/logout`, { method: 'POST', headers: { Origin: SITE } });
    const answer = await page(request);
    expect(answer.status).toBe(303);
    expect(answer.headers.get('Set-Cookie')).toContain('__Secure-weir=; Max-Age=0; Path=/_weir;');
  });

  it('answer other methods with 405, and name the allowed ones', async () => {
    const { page } = openIsolate();
    const answers = ['/_weir/', '/_weir/login'].map((path) =>
      page(new Request(SITE + path, { method: 'DELETE' })),
    );
    expect((await Promise.all(answers)).map(({ status, headers }) => [status, headers.get('Allow')])).toEqual(
      [
        [405, 'GET, HEAD'],
        [405, 'GET, HEAD, POST'],
      ],
    );
  });
});
