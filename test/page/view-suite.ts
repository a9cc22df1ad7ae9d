// What holds for every view: with data, empty, and while parts are down. Part of loop.test.ts, on its browser and
// stack.
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { isLong } from '../rounds.ts';
import { type PageTest, READER } from './browser.ts';
import {
  EMPTY_VIEWS,
  type KnownView,
  type Seen,
  viewsWith,
  viewsWithoutPostgres,
  violationsIn,
} from './views.ts';

export interface Suite {
  readonly test: () => PageTest;
  readonly seen: () => Seen;
}

type Opened = Awaited<ReturnType<PageTest['open']>>;

async function visit({ page, go }: Opened, { path, press, ready }: KnownView): Promise<void> {
  await go(path);
  if (press) await page.click(press);
  await page.locator(ready).first().waitFor();
}

export function describeEmptyViews({ test }: Suite): void {
  it('an address that breaks off in the middle of a character shows the overview', async () => {
    const { page, go, trouble } = await test().open();
    for (const path of ['#/%', '#/callers/user/%E0%A4']) {
      await page.goto('about:blank');
      await go(path);
      await page.waitForSelector('h1:has-text("Overview")');
    }
    expect(trouble).toEqual([]);
  });

  it('every view shows the next step while it is empty', async () => {
    await test().weir.sql('delete from rules; delete from history');
    await test().weir.admin('/publish', { method: 'POST' });
    const opened = await test().open();
    for (const view of EMPTY_VIEWS) await visit(opened, view);
    expect(opened.trouble).toEqual([]);
  });
}

export function describeEveryView({ test, seen }: Suite): void {
  describe('every view', () => {
    const lookAtLaptop = async (page: Page, { name }: KnownView) => {
      await page.setViewportSize({ width: 1_200, height: 800 });
      expect(await violationsIn(page), `${name} at 1200 pixels`).toEqual([]);
      await page.setViewportSize({ width: 360, height: 800 });
    };

    it.each(isLong ? (['dark', 'light'] as const) : (['dark'] as const))(
      'fits a %s phone of 360 pixels, has no violation that axe-core knows, and shows HTML in names as text',
      async (theme) => {
        const opened = await test().open({ width: 360, theme });
        const { page, trouble } = opened;
        page.on('dialog', (dialog) => {
          trouble.push(`a dialog: ${dialog.message()}`);
          void dialog.dismiss();
        });
        for (const view of viewsWith(seen())) {
          await visit(opened, view);
          expect(await page.locator('img[src=x], main script').count(), view.name).toBe(0);
          const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
          expect(overflow, `${view.name}: too wide by`).toBeLessThanOrEqual(0);
          expect(await violationsIn(page), view.name).toEqual([]);
          if (isLong) await lookAtLaptop(page, view);
        }
        expect(trouble).toEqual([]);
      },
    );

    /** In the short form. They have a curve, a table, a form, a meter and a list of changes between them. */
    const ON_A_LAPTOP = ['overview', 'a rule', 'a caller', 'explain'];

    it('shows a reader no button that would fail, and has no violation on a laptop', async () => {
      const opened = await test().open({ token: READER });
      for (const view of viewsWith(seen()).filter(({ name }) => name !== 'a new rule')) {
        await visit(opened, view);
        const buttons = await opened.page.locator('main button:visible').allInnerTexts();
        expect(buttons.filter((text) => !/^(Search|More|Older|Curve|Explain)/.test(text))).toEqual([]);
        if (isLong || ON_A_LAPTOP.includes(view.name))
          expect(await violationsIn(opened.page), view.name).toEqual([]);
      }
      await opened.page.getByText('reader (read only)').waitFor();
    });
  });
}

export function describeFailingParts({ test, seen }: Suite): void {
  describe('when parts fail', () => {
    it('the page names a region that does not answer, and the others still work', async () => {
      const { page, go } = await test().open();
      await test().weir.withFault('eu', { status: 500 }, async () => {
        await go('#/overview');
        await page.waitForSelector('tr:has-text("eu") .badge.bad:has-text("does not answer")');
        await page.waitForSelector('tr:has-text("us") .badge.good:has-text("answers")');
        await go('#/health');
        await page.waitForSelector('tr:has-text("redis:eu") .badge.bad');
      });
    });

    it('records and rules are shown even if no region answers and there are no metrics', async () => {
      const { page, go } = await test().open();
      const { weir } = test();
      const broken = { status: 500 };
      await weir.withFault('us', broken, () =>
        weir.withFault('eu', broken, () =>
          weir.withFault('ap', broken, async () => {
            await go('#/overview');
            await expect.poll(() => page.locator('.badge.bad:has-text("does not answer")').count()).toBe(3);
            await page.waitForSelector(`section:has-text("Denied most") td:has-text("${seen().caller}")`);
            await go('#/rules');
            await page.waitForSelector('tr:has-text("logins"):has-text("no checks")');
          }),
        ),
      );
    });

    it('a session that was logged out leads to the form, and its cookie works in no isolate', async () => {
      const { page, context, go } = await test().open({ isFresh: true });
      const [cookie] = await context.cookies();
      const headers = { Cookie: `${cookie?.name}=${cookie?.value}` };
      const ask = async () =>
        (await test().weir.call('/_weir/admin/rules', { isolate: 'two', headers })).status;
      expect(await ask()).toBe(200);
      await page.getByRole('button', { name: 'Log out' }).click();
      await page.waitForSelector('#token');
      expect(await ask()).toBe(401);
      await go('#/rules');
      await page.waitForSelector('#token');
    });

    // The last test, because Postgres does not come back.
    it('every view says that Postgres is down, and shows everything that does not need Postgres', async () => {
      const opened = await test().open();
      await test().weir.stack.stopPostgres();
      for (const view of viewsWithoutPostgres(seen())) await visit(opened, view);
      expect(opened.trouble).toEqual([]);
    });
  });
}
