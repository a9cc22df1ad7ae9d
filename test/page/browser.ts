// The page in a real Chromium, in front of a whole Weir. For the tests of one file.
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { onTestFinished } from 'vitest';
import { findOrInstallChromium } from '../../local/chromium.ts';
import type { Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';
import { type AccessTest, startAccess } from './access.ts';

export const TOKEN = 'an-admin-token-for-tests';
export const READER = 'a-token-that-may-only-read';

export interface OpenOptions {
  readonly token?: string;
  readonly theme?: 'light' | 'dark';
  readonly width?: number;
  /** Logs in again, for a test that ends the session. */
  readonly isFresh?: boolean;
  /** The e-mail address of a person whom Cloudflare Access lets in, without a log-in. */
  readonly accessTo?: string;
}

export interface PageTest extends AsyncDisposable {
  readonly weir: Weir;
  /** Localhost, because browsers keep secure cookies there without TLS. */
  readonly url: string;
  /**
   * Opens the page, logged in, and closes the one opened before. `trouble` collects what the page itself does wrong
   * (errors, violations of the policy).
   */
  open(options?: OpenOptions): Promise<OpenedPage>;
}

export interface OpenedPage {
  readonly page: Page;
  readonly context: BrowserContext;
  readonly trouble: string[];
  /** Goes to another view. */
  go(hash: string): Promise<void>;
}

export async function startPageTest(): Promise<PageTest> {
  await using cleanup = new AsyncDisposableStack();
  const access = cleanup.use(await startAccess());
  const variables = {
    ADMIN_ACCESS: access.variable,
    TELEMETRY_SECONDS: '0.5',
    ADMIN_TOKENS: JSON.stringify([{ name: 'reader', token: READER, role: 'read' }]),
  };
  const [weir, browser] = await Promise.all([startWeir(variables, { hasPage: true }), startChromium()]);
  cleanup.use(weir);
  cleanup.defer(() => browser.close());
  /** By token: the cookies of a person who has logged in with it before. */
  const sessions: Sessions = new Map();
  const url = (weir.isolates.urls['one'] ?? '').replace('127.0.0.1', 'localhost');
  const owned = cleanup.move();
  return {
    weir,
    url,
    open: (options) => openPage({ browser, url, sessions, access }, options),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

export async function startChromium(): Promise<Browser> {
  const executablePath = await findOrInstallChromium({ say: (line) => console.log(line) });
  // Root has no sandbox, and small machines have little shared memory.
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
}

type Sessions = Map<string, Awaited<ReturnType<BrowserContext['storageState']>>>;

interface Opening {
  readonly browser: Browser;
  readonly url: string;
  readonly sessions: Sessions;
  readonly access: AccessTest;
}

async function openPage(opening: Opening, options: OpenOptions = {}): Promise<OpenedPage> {
  const { browser, url, sessions, access } = opening;
  const { token = TOKEN, theme = 'light', width = 1200, isFresh = false, accessTo } = options;
  const storageState = isFresh || accessTo !== undefined ? undefined : sessions.get(token);
  const mustLogIn = !storageState && accessTo === undefined;
  const context = await browser.newContext({
    colorScheme: theme,
    viewport: { width, height: 800 },
    ...(storageState && { storageState }),
    ...(accessTo !== undefined && { extraHTTPHeaders: await access.headersOf(accessTo) }),
  });
  // A page that stays open would go on asking the Worker and drawing curves beside the following tests.
  onTestFinished(() => context.close());
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const trouble: string[] = [];
  page.on('pageerror', (error) => trouble.push(error.message));
  page.on('console', (message) => {
    if (/Content Security Policy|Uncaught/.test(message.text())) trouble.push(message.text());
  });
  await page.goto(`${url}/_weir/`);
  if (mustLogIn) {
    await page.fill('#token', token);
    await page.click('button:has-text("Log in")');
  }
  await page.waitForSelector('h1:has-text("Overview")');
  if (mustLogIn && !isFresh) sessions.set(token, await context.storageState());
  return {
    page,
    context,
    trouble,
    async go(hash) {
      await page.goto(`${url}/_weir/${hash}`);
    },
  };
}
