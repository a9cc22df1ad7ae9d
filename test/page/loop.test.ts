// The page's main loop in a real Chromium, on real parts: a denied caller, why, an override with an end, in force, and the
// curve that shows it. Every view on the way is checked for accessibility, and for code that names could have become.
import axe from 'axe-core';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isLong } from '../rounds.ts';
import { type PageTest, READER, startPageTest } from './browser.ts';

const CALLER = '203.0.113.7';
/** Would call `alert`, or break out of an attribute, if any of it were taken for HTML. */
const EVIL = '"><img src=x onerror=alert(1)><script>alert(2)</script>\'; {{7*7}} </title>';

let test: PageTest;
let ruleId = '';
beforeAll(async () => {
  test = await startPageTest();
  const rule = {
    resource: '/login',
    scope: 'ip',
    algorithm: 'sliding-window-log',
    limit: 5,
    windowSeconds: 3_600,
  };
  const { weir } = test;
  ({ id: ruleId } = await weir.admin<{ id: string }>('/rules', {
    method: 'POST',
    body: { ...rule, name: 'logins', message: EVIL },
  }));
  await weir.admin('/rules', { method: 'POST', body: { ...rule, resource: '/evil', name: EVIL } });
  await weir.admin('/tenants', { method: 'POST', body: { id: EVIL, name: EVIL } });
  await weir.admin('/users', { method: 'POST', body: { id: EVIL, tenantId: EVIL } });
  await weir.admin('/keys', { method: 'POST', body: { name: EVIL, userId: EVIL } });
  await weir.admin('/lists', {
    method: 'POST',
    body: { list: 'deny', kind: 'user', value: EVIL, reason: EVIL },
  });
  for (let i = 0; i < 12; i += 1) await weir.call('/login', { ip: CALLER });
  for (let i = 0; i < 7; i += 1) await weir.call('/evil', { ip: '203.0.113.8' });
});
afterAll(() => test?.[Symbol.asyncDispose]());

/** What axe-core says against the view as it stands, without the rules that are advice only. */
async function violationsIn(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const found = await page.evaluate(async () => {
    const run: typeof axe.run = Reflect.get(globalThis, 'axe').run;
    return (await run()).violations.map(
      ({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target).join(', ')}`,
    );
  });
  return found;
}

describe('the loop', () => {
  it('leads from the overview to an override that is in force within a second, and the curve follows', async () => {
    const { page, trouble } = await test.open();
    const denied = page.locator('section:has-text("Denied most")').getByRole('link', { name: CALLER });
    await denied.click();
    await page.waitForSelector('td:has-text("denied now")');
    expect(await page.locator('tr:has-text("logins")').first().innerText()).toContain('5 / hour');

    await page.getByRole('button', { name: 'Override logins' }).click();
    await page.fill('dialog input[name=limit]', '50');
    await page.click('dialog button:has-text("8 hours")');
    await page.click('dialog button.primary');
    // The page itself looks until the limit is in force, and says so only then.
    const said = await page.waitForSelector('.toast:has-text("In force after")');
    console.log(`from the click to the override in force: ${/[\d.]+ s/.exec(await said.innerText())?.[0]}`);

    // The gateway of another isolate admits the caller again, to the last unit of the new limit and no further.
    const answers: number[] = [];
    for (let i = 0; i < 51; i += 1)
      answers.push((await test.weir.call('/login', { ip: CALLER, isolate: 'two' })).status);
    expect(answers.filter((status) => status === 200)).toHaveLength(50);
    await page.waitForSelector(
      'figure:has-text("Used of login-ip"):has-text("Used: 50 units · Limit: 50 units")',
    );
    await page.waitForSelector('.badge:has-text("override, ends in 8 h")');
    expect(trouble).toEqual([]);
  });

  it('can be undone from the history', async () => {
    const { page, go } = await test.open();
    await go('#/history');
    await page
      .getByRole('button', { name: /Undo the change of override: 203/ })
      .first()
      .click();
    await page.click('dialog button.danger');
    await page.waitForSelector('.toast:has-text("Undone")');
    const { limits } = await test.weir.admin<{ limits: { name: string; limit: number }[] }>(
      `/limits?scope=ip&subject=${CALLER}`,
    );
    expect(limits.find(({ name }) => name === 'logins')?.limit).toBe(5);
  });
});

describe('every view', () => {
  const VIEWS: readonly [name: string, hash: () => string, ready: string][] = [
    ['overview', () => '#/overview', 'section:has-text("Denied most") table'],
    ['rules', () => '#/rules', 'tr:has-text("alert(2)")'],
    ['a rule', () => `#/rules/${ruleId}`, '.sentence:has-text("5 every hour")'],
    ['a new rule', () => '#/rules/new', 'form.rule'],
    ['callers', () => '#/callers', 'main li'],
    ['callers found', () => `#/callers?q=${encodeURIComponent('onerror')}`, 'td:has-text("tenant")'],
    ['a caller', () => `#/callers/ip/${CALLER}`, 'meter'],
    [
      'a caller with an evil name',
      () => `#/callers/user/${encodeURIComponent(EVIL)}`,
      '.badge:has-text("deny list")',
    ],
    ['violators', () => '#/violators', `td:has-text("${CALLER}")`],
    ['explain', () => '#/explain', 'form.explain'],
    ['history', () => '#/history', '.changes li'],
    ['health', () => '#/health', 'td:has-text("redis:us")'],
  ];

  /** The next test looks at all views. These have most of the parts that colours differ in. */
  const MAIN_VIEWS = VIEWS.filter(([name]) => ['overview', 'a rule'].includes(name));

  it('has no violation that axe-core knows, on a light screen', async () => {
    const { page, go } = await test.open();
    for (const [name, hash, ready] of isLong ? VIEWS : MAIN_VIEWS) {
      await go(hash());
      await page.locator(ready).first().waitFor();
      expect(await violationsIn(page), name).toEqual([]);
    }
  });

  it('has none on a dark phone of 360 pixels, either, fits it, and shows evil names as text', async () => {
    const { page, go, trouble } = await test.open({ width: 360, theme: 'dark' });
    page.on('dialog', (dialog) => {
      trouble.push(`a dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    for (const [name, hash, ready] of VIEWS) {
      await go(hash());
      await page.locator(ready).first().waitFor();
      expect(await page.locator('img[src=x], main script').count(), name).toBe(0);
      const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
      expect(overflow, `${name}: too wide by`).toBeLessThanOrEqual(0);
      expect(await violationsIn(page), name).toEqual([]);
    }
    expect(trouble).toEqual([]);
  });

  it('has no button that fails for somebody who may only read', async () => {
    const { page, go } = await test.open({ token: READER });
    for (const [, hash, ready] of VIEWS.filter(([name]) => name !== 'a new rule')) {
      await go(hash());
      await page.locator(ready).first().waitFor();
      const buttons = await page.locator('main button:visible').allInnerTexts();
      expect(buttons.filter((text) => !/^(Search|More|Older|Curve|Explain)/.test(text))).toEqual([]);
    }
    await page.getByText('reader (read only)').waitFor();
  });
});

describe('rules', () => {
  it('say at the field what is wrong with it, and what they mean before they are saved', async () => {
    const { page, go } = await test.open();
    await go('#/rules/new');
    await page.fill('[name=resource]', '/orders/:id');
    await page.fill('[name=limit]', '0');
    await page.fill('[name=windowSeconds]', '60');
    await page.selectOption('[name=scope]', 'user');
    await page.click('form.rule > button');
    await page.waitForSelector('#error-limit');
    await page.fill('[name=limit]', '20');
    expect(await page.innerText('form.rule .sentence')).toBe(
      'Each user may send requests to /orders/:id: 20 every minute; more are answered 429.',
    );
    await page.click('form.rule > button');
    await page.waitForSelector('h2:has-text("History")');
    await page.getByRole('button', { name: 'Try as shadow' }).click();
    await page.waitForSelector('.badge:has-text("shadow")');
    await page.waitForSelector('.differences:has-text("action")');
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.click('dialog button.danger');
    await page.waitForSelector('h1:has-text("Rules")');
  });
});

describe('a changed limit', () => {
  it('is held against the last day before it is saved, and the answer says what is not known', async () => {
    const { page, go } = await test.open();
    await go(`#/rules/${ruleId}`);
    await page.click('summary:has-text("Edit")');
    await page.fill('[name=limit]', '0');
    await page.getByRole('button', { name: 'Who would this have denied?' }).click();
    await page.waitForSelector('#error-limit');
    await page.fill('[name=limit]', '2');
    await page.getByRole('button', { name: 'Who would this have denied?' }).click();
    const answer = page.locator('.would-deny ul');
    await answer.waitFor();
    // Of the caller's requests seven were denied: two of them pass at most.
    expect(await answer.innerText()).toMatch(/At least \d+ units of 1 caller would have been denied/);
    expect(await answer.innerText()).toContain('Of addresses only denials are recorded');
    await page.waitForSelector(`.would-deny tr:has-text("${CALLER}")`);
  });
});

describe('the switch for all rules', () => {
  it('makes every rule only log, after a question, and enforces them again', async () => {
    const { page, go } = await test.open();
    await go('#/rules');
    await page.getByRole('button', { name: 'Only log, everywhere…' }).click();
    await page.click('dialog button.danger');
    await page.waitForSelector('.notice:has-text("Every rule only logs")');
    expect(await test.weir.admin('/settings')).toMatchObject({ enforcement: 'log' });
    await page.getByRole('button', { name: 'Enforce again' }).click();
    await page.getByRole('button', { name: 'Only log, everywhere…' }).waitFor();
    expect(await test.weir.admin('/settings')).toMatchObject({ enforcement: 'on' });
  });
});

describe('explain', () => {
  it('shows the way of a pasted curl command', async () => {
    const { page, go } = await test.open();
    await go('#/explain');
    await page.fill(
      '[name=curl]',
      `curl -X POST 'https://api.example.com//login' -H "CF-Connecting-IP: ${CALLER}"`,
    );
    await page.click('form.explain button');
    const way = page.locator('.way');
    await way.waitFor();
    const text = await way.innerText();
    expect(text).toContain('POST /login');
    expect(text).toContain('logins: 5 every hour');
  });
});

describe('when parts fail', () => {
  it('the page says which, and goes on', async () => {
    const { page, go } = await test.open();
    await test.weir.withFault('eu', { status: 500 }, async () => {
      await go('#/overview');
      await page.waitForSelector('tr:has-text("eu") .badge.bad:has-text("does not answer")');
      await go('#/health');
      await page.waitForSelector('tr:has-text("redis:eu") .badge.bad');
    });
  });

  it('a session that ended leads to the form', async () => {
    const { page, context, go } = await test.open();
    await context.clearCookies();
    await go('#/rules');
    await page.waitForSelector('#token');
  });
});
