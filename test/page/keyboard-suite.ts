// The page without a mouse: every stop is visible, the focus stays where it was put, and Enter deletes nothing by
// accident. Part of loop.test.ts, on its browser and stack.
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import type { Suite } from './view-suite.ts';

/** A selector for the element that has the focus. */
const focused = (selector: string) => `${selector}:focus`;

interface Stop {
  readonly name: string;
  readonly isSeen: boolean;
}

/** What a person hears of an element. Runs in the browser. */
const NAME_OF = `(one) => one.getAttribute('aria-label') || one.labels?.[0]?.textContent || one.textContent`;
const STOPS = 'a[href], button, input, select, textarea, summary';

const STOP = `(() => {
  const { activeElement: one } = document;
  const { outlineStyle, outlineWidth } = getComputedStyle(one);
  return { name: (${NAME_OF})(one), isSeen: outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2 };
})()`;

/** The link before everything else. */
async function goToFirstStop(page: Page): Promise<void> {
  await page.focus('.brand');
  await page.keyboard.press('Shift+Tab');
}

/** Where the Tab key stops, from the first stop on. A date has several parts, which count as one stop here. */
async function readStops(page: Page, count: number): Promise<Stop[]> {
  await goToFirstStop(page);
  const stops = [await page.evaluate<Stop>(STOP)];
  const maxPresses = 2 * count;
  for (let press = 0; press < maxPresses && stops.length < count; press += 1) {
    await page.keyboard.press('Tab');
    const stop = await page.evaluate<Stop>(STOP);
    if (stop.name !== stops.at(-1)?.name) stops.push(stop);
  }
  return stops;
}

export function describeKeyboard({ test, seen }: Suite): void {
  describe('with a keyboard alone', () => {
    it.each([
      // The switch comes with the settings, after the rules.
      ['rules', '#/rules', 'main:has(button:has-text("Only log, everywhere")) tbody a'],
      ['a new rule', '#/rules/new', 'form.rule'],
    ])(
      'the Tab key reaches all of %s, in order, and each stop has a name and an outline',
      async (_, path, ready) => {
        const { page, go } = await test().open();
        await go(path);
        await page.locator(ready).first().waitFor();
        await page.locator('details').evaluateAll((all) => all.map((one) => one.setAttribute('open', '')));
        const names = await page.evaluate<string[]>(
          `[...document.querySelectorAll('${STOPS}')].filter((one) => one.checkVisibility()).map(${NAME_OF})`,
        );
        const stops = await readStops(page, names.length);
        expect(stops.map(({ name }) => name)).toEqual(names);
        expect(stops.filter(({ name, isSeen }) => !isSeen || name.trim() === '')).toEqual([]);
      },
    );

    it('the first stop skips to the content, and the view stays', async () => {
      const { page, go } = await test().open();
      await go('#/rules');
      await page.waitForSelector('h1:has-text("Rules")');
      await goToFirstStop(page);
      await page.keyboard.press('Enter');
      await page.waitForSelector(focused('main'));
      expect(await page.innerText('h1')).toBe('Rules');
    });

    it('a live view keeps the focus when it is redrawn, and so does its dialog', async () => {
      const { page, go } = await test().open();
      await go(`#/callers/ip/${seen().caller}`);
      const override = 'button[aria-label="Override logins"]';
      await page.focus(override);
      const drawnAnew = async () => {
        await page.$eval(override, (old) => old.setAttribute('data-old', ''));
        await page.waitForSelector(`${override}:not([data-old])`);
      };
      await drawnAnew();
      await page.waitForSelector(focused(override));
      await page.keyboard.press('Enter');
      await page.waitForSelector(focused('dialog input[name=limit]'));
      await drawnAnew();
      await page.keyboard.press('Escape');
      await page.waitForSelector(focused(override));
    });

    it('Enter cancels a destructive question, and leaving the view closes the question', async () => {
      const { page, go } = await test().open();
      await go(`#/rules/${seen().ruleId}`);
      await page.getByRole('button', { name: 'Delete' }).press('Enter');
      await page.waitForSelector('dialog button:text("Cancel"):focus');
      await page.keyboard.press('Enter');
      await page.waitForSelector('dialog', { state: 'detached' });
      await page.waitForSelector(focused('button:text("Delete")'));
      await page.keyboard.press('Enter');
      await page.waitForSelector('dialog');
      await page.goBack();
      await page.waitForSelector('dialog', { state: 'detached' });
    });

    it('a filter keeps the focus when it is changed', async () => {
      const { page, go } = await test().open();
      await go('#/violators');
      await page.waitForSelector('tbody');
      await page.focus('select[name=groupBy]');
      await page.keyboard.press('ArrowDown');
      await page.waitForURL(/groupBy=ip/);
      await page.waitForSelector(focused('select[name=groupBy]'));
    });
  });
}
