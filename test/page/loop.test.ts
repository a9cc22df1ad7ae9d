// The page's main loop in a real Chromium, on real parts: a denied caller, the reason, an override with an end, in
// force, and the curve that shows it. Every view on the way is checked for accessibility, and for names that could
// become code.
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ADMIN } from './access.ts';
import { type PageTest, startPageTest } from './browser.ts';
import { describeComplaint } from './complaint-suite.ts';
import { describeKeyboard } from './keyboard-suite.ts';
import { describeEmptyViews, describeEveryView, describeFailingParts } from './view-suite.ts';

const CALLER = '203.0.113.7';
/** Would call `alert`, or break out of an attribute, if any of it were taken for HTML. */
const EVIL = '"><img src=x onerror=alert(1)><script>alert(2)</script>\'; {{7*7}} </title>';

let test: PageTest;
let ruleId = '';
beforeAll(async () => {
  test = await startPageTest();
});
afterAll(() => test?.[Symbol.asyncDispose]());

const suite = { test: () => test, seen: () => ({ ruleId, caller: CALLER, evil: EVIL }) };

async function enterRulesAndSendTraffic(): Promise<void> {
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
}

describeEmptyViews(suite);

describe('with rules and traffic', () => {
  beforeAll(enterRulesAndSendTraffic);

  describe('the loop', () => {
    it('leads from the overview to an override, which is in force at once, and the curve follows', async () => {
      // The page asks every six seconds, and finds the denials at its first request if they are there before.
      const violators = () => test.weir.admin<{ items: unknown[] }>('/violators?since=1h&groupBy=all');
      await expect.poll(async () => (await violators()).items).toHaveLength(2);
      const { page, trouble } = await test.open();
      const denied = page.locator('section:has-text("Denied most")').getByRole('link', { name: CALLER });
      await denied.click();
      await page.waitForSelector('td:has-text("denied now")');
      expect(await page.locator('tr:has-text("logins")').first().innerText()).toContain('5 / hour');

      await page.getByRole('button', { name: 'Override logins' }).click();
      await page.fill('dialog input[name=limit]', '50');
      await page.click('dialog button:has-text("8 hours")');
      const announced = page.waitForResponse((answer) => answer.request().method() === 'POST');
      const clickedAtMs = performance.now();
      const since = () => `${((performance.now() - clickedAtMs) / 1_000).toFixed(2)} s`;
      await page.click('dialog button.primary');
      expect((await announced).status()).toBe(201);
      // The very next request obeys the new limit, at another isolate. That isolate has decided nothing for seconds, so
      // it looks for newer rules first.
      const send = async () => (await test.weir.call('/login', { ip: CALLER, isolate: 'two' })).status;
      expect(await send()).toBe(200);
      const obeyed = since();
      const said = await page.waitForSelector('.toast:has-text("In force after")');
      const told = /[\d.]+ s/.exec(await said.innerText())?.[0];

      // To the last unit of the new limit, and no further.
      const answers: number[] = [];
      for (let i = 0; i < 50; i += 1) answers.push(await send());
      expect(answers).toEqual([...Array(49).fill(200), 429]);
      await page.waitForSelector(
        'figure:has-text("Used of login-ip"):has-text("Used: 50 units · Limit: 50 units")',
      );
      console.log(
        `after the click on Override: obeyed by another isolate ${obeyed}, in force by the page ${told}, 51 requests later in the curve ${since()}`,
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

  describeComplaint(suite);
  describeEveryView(suite);

  describe('rules', () => {
    it('show an error at its field, and a sentence about the rule before it is saved', async () => {
      const { page, go } = await test.open();
      await go('#/rules/new');
      await page.fill('[name=resource]', '/orders/:id');
      await page.fill('[name=limit]', '0');
      await page.fill('[name=windowSeconds]', '60');
      await page.selectOption('[name=scope]', 'user');
      await page.click('form.rule > button');
      // The browser knows the bounds of numbers, and the API everything else.
      await page.waitForSelector('[name=limit]:focus + #error-limit:has-text("greater than or equal to 1")');
      await page.fill('[name=limit]', '20');
      const more = page.locator('summary:has-text("more fields")');
      await more.click();
      await page.fill('[name=policy]', 'No Such Name!');
      await more.click();
      await page.click('form.rule > button');
      await page.waitForSelector('[name=policy]:focus + #error-policy');
      expect(await page.locator('.field-error').count()).toBe(1);
      await page.fill('[name=policy]', '');
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

  describe('the form of a rule', () => {
    interface Property {
      readonly type?: string | readonly string[];
      readonly minimum?: number;
      readonly maximum?: number;
      readonly enum?: readonly (string | null)[];
      readonly anyOf?: readonly Property[];
    }
    interface Schema {
      readonly properties: Readonly<Record<string, Property>>;
    }
    const valuesOf = ({ enum: values = [], anyOf = [] }: Property): (string | null)[] => [
      ...values,
      ...anyOf.flatMap(valuesOf),
    ];

    const numbersOf = (properties: Schema['properties']) =>
      Object.entries(properties)
        .flatMap(([name, { anyOf = [], ...one }]) => [one, ...anyOf].map((each) => ({ name, ...each })))
        .map(({ type = [], ...bounds }) => ({ types: [type].flat(), ...bounds }))
        .filter(({ types }) => types.includes('integer') || types.includes('number'))
        .map(({ name, types, minimum: min, maximum: max }) => ({
          name,
          min: String(min ?? ''),
          max: String(max ?? ''),
          step: types.includes('integer') ? '1' : 'any',
        }))
        .toSorted(byName);
    const byName = (a: { name: string }, b: { name: string }) => a.name.localeCompare(b.name);
    const numbersIn = async (page: Page) => {
      const numbers = await page
        .locator('form.rule input[type=number]')
        .evaluateAll((all) =>
          all.map((one) => ['name', 'min', 'max', 'step'].map((name) => one.getAttribute(name) ?? '')),
        );
      return numbers.map(([name = '', min, max, step]) => ({ name, min, max, step })).toSorted(byName);
    };

    it('has every field that the API takes, every value of a choice, and the bounds of every number', async () => {
      const { components } = await test.weir.admin<{ components: { schemas: Record<string, Schema> } }>(
        '/openapi.json',
      );
      const properties = components.schemas['RuleCreation']?.properties ?? {};
      const { page, go } = await test.open();
      await go('#/rules/new');
      await page.waitForSelector('form.rule');
      const fields = await page
        .locator('form.rule [name]')
        .evaluateAll((all) => all.map((field) => field.getAttribute('name')));
      expect(fields.toSorted()).toEqual(Object.keys(properties).toSorted());
      const choices = Object.entries(properties).filter(([, property]) => valuesOf(property).length > 0);
      expect(choices.map(([name]) => name)).toContain('algorithm');
      for (const [name, property] of choices) {
        const options = await page
          .locator(`form.rule select[name=${name}] option`)
          .evaluateAll((all) => all.map((option) => option.getAttribute('value')));
        const values = valuesOf(property).map((value) => value ?? '');
        expect(options.toSorted(), name).toEqual(expect.arrayContaining(values.filter(Boolean)));
      }
      expect(await numbersIn(page)).toEqual(numbersOf(properties));
    });
  });

  describe('a changed limit', () => {
    it('can be compared with the last day before it is saved, and the answer says what is not known', async () => {
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
      // Seven of the caller's requests were denied, so at most two of them pass.
      expect(await answer.innerText()).toMatch(/At least \d+ units of 1 caller would have been denied/);
      expect(await answer.innerText()).toContain('Weir records only denials of addresses');
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

  describe('behind Cloudflare Access', () => {
    it('no log-in is needed: admins may change things, and others may only look', async () => {
      const admin = await test.open({ accessTo: ADMIN });
      await admin.page.getByText(ADMIN).waitFor();
      expect(await admin.page.getByRole('button', { name: 'Log out' }).count()).toBe(0);
      await admin.go(`#/rules/${ruleId}`);
      await admin.page.getByRole('button', { name: 'Try as shadow' }).click();
      await admin.page.getByRole('button', { name: 'Enforce' }).click();
      await admin.page.waitForSelector(
        `.changes li:has-text("${ADMIN} changed rule logins") ins:text("reject")`,
      );

      const { page, go } = await test.open({ accessTo: 'bob@example.com' });
      await page.getByText('bob@example.com (read only)').waitFor();
      await go(`#/rules/${ruleId}`);
      await page.waitForSelector('.changes li');
      expect(await page.locator('main button').count()).toBe(0);
    });
  });

  describe('explain', () => {
    it('shows how a pasted curl command is decided', async () => {
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
      expect(text).toContain('denied by logins: try again in');
    });

    it('says that a shadow rule denies no request', async () => {
      const { page, go } = await test.open();
      await test.weir.admin(`/rules/${ruleId}`, { method: 'PATCH', body: { action: 'log' } });
      await go('#/explain');
      await page.fill('[name=path]', '/login');
      await page.fill('[name=ip]', CALLER);
      await page.click('form.explain button');
      await page.waitForSelector('.way li:has-text("logins"):has-text("0 left"):has-text("denies nobody")');
      await page.waitForSelector('.way .verdict:has-text("goes to the origin")');
      await test.weir.admin(`/rules/${ruleId}`, { method: 'PATCH', body: { action: 'reject' } });
    });
  });

  describeKeyboard(suite);
  describeFailingParts(suite);
});
