// The page's main loop in a real Chromium, on real parts: a denied caller, why, an override with an end, in force, and the
// curve that shows it. Every view on the way is checked for accessibility, and for code that names could have become.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type PageTest, startPageTest } from './browser.ts';
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
    it('leads from the overview to an override that is in force everywhere once the page says so, and the curve follows', async () => {
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

      // The gateway of another isolate admits the caller again from its first request on, to the last unit of the new limit
      // and no further. It has decided nothing for seconds, so it looks for newer rules before it decides.
      const answers: number[] = [];
      for (let i = 0; i < 51; i += 1)
        answers.push((await test.weir.call('/login', { ip: CALLER, isolate: 'two' })).status);
      expect(answers).toEqual([...Array(50).fill(200), 429]);
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

  describeEveryView(suite);

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

  describe('the form of a rule', () => {
    interface Property {
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

    it('has every field that the API takes, and every value of a choice', async () => {
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

  describeFailingParts(suite);
});
