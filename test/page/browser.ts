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
  /** Logs in again, for a test that ends the session or closes the page. */
  readonly isFresh?: boolean;
  /** The e-mail address of a person whom Cloudflare Access lets in, without a log-in. */
  readonly accessTo?: string;
}

export interface PageTest extends AsyncDisposable {
  readonly weir: Weir;
  /** Localhost, because browsers keep secure cookies there without TLS. */
  readonly url: string;
  /**
   * Opens the page, logged in. It ends with the test. `trouble` collects what the page itself does wrong (errors,
   * violations of the policy).
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
  const tabs: Tabs = new Map();
  const url = (weir.isolates.urls['one'] ?? '').replace('127.0.0.1', 'localhost');
  const owned = cleanup.move();
  return {
    weir,
    url,
    open: (options) => openPage({ browser, url, tabs, access }, options),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

export async function startChromium(): Promise<Browser> {
  const executablePath = await findOrInstallChromium({ say: (line) => console.log(line) });
  // Root has no sandbox, and small machines have little shared memory. To play a graphics card takes processor time.
  const args = ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--in-process-gpu'];
  return chromium.launch({ executablePath, args: [...args, '--disable-software-rasterizer'] });
}

/**
 * By token and whether scripts run: a tab in which a person has logged in before. The next test loads the page in it
 * anew. A tab of its own for each test would start a process of the browser each time, which compiles all scripts.
 */
type Tabs = Map<string, Page>;

interface Opening {
  readonly browser: Browser;
  readonly url: string;
  readonly tabs: Tabs;
  readonly access: AccessTest;
}

async function openPage(opening: Opening, options: OpenOptions = {}): Promise<OpenedPage> {
  const { url, tabs } = opening;
  const { token = TOKEN, theme = 'light', width = 1200 } = options;
  const { isFresh = false, accessTo } = options;
  const isKept = !isFresh && accessTo === undefined;
  const kept = isKept ? tabs.get(token) : undefined;
  const page = kept ?? (await newTab(opening, options));
  const context = page.context();
  const trouble: string[] = [];
  page.on('pageerror', (error) => trouble.push(error.message));
  page.on('console', (message) => {
    if (/Content Security Policy|Uncaught/.test(message.text())) trouble.push(message.text());
  });
  // A page that stays open would go on asking the Worker and drawing curves beside the following tests.
  onTestFinished(async () => {
    if (!isKept) return context.close();
    for (const event of ['pageerror', 'console', 'dialog'] as const) page.removeAllListeners(event);
    await page.goto('about:blank');
  });
  await page.emulateMedia({ colorScheme: theme });
  await page.setViewportSize({ width, height: 800 });
  await page.goto(`${url}/_weir/`);
  if (!kept && accessTo === undefined) {
    await page.fill('#token', token);
    await page.click('button:has-text("Log in")');
  }
  await page.waitForSelector('h1:has-text("Overview")');
  if (isKept) tabs.set(token, page);
  return {
    page,
    context,
    trouble,
    async go(hash) {
      await page.goto(`${url}/_weir/${hash}`);
    },
  };
}

/** In a context of its own: nobody has logged in there. */
async function newTab({ browser, access }: Opening, { accessTo }: OpenOptions) {
  const context = await browser.newContext({
    ...(accessTo !== undefined && { extraHTTPHeaders: await access.headersOf(accessTo) }),
  });
  context.setDefaultTimeout(60_000);
  return await context.newPage();
}
