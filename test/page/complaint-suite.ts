// A customer complains, and the page answers, although the rule counts addresses. Part of loop.test.ts.
import { beforeAll, describe, expect, it } from 'vitest';
import type { Suite } from './view-suite.ts';

const SERVER = '198.51.100.10';

export function describeComplaint({ test }: Suite): void {
  describe('the complaint of a customer', () => {
    let keyId = '';
    let key = '';
    /** Of the first denied request, as its answer has it. */
    let requestId = '';
    const send = async () => {
      const answer = await test().weir.call('/acme/login?password=secret', {
        ...{ ip: SERVER, method: 'POST', headers: { 'X-API-Key': key } },
      });
      requestId ||= answer.headers.get('X-Weir-Request') ?? '';
      return answer.status;
    };

    beforeAll(async () => {
      const { weir } = test();
      const create = <T>(path: string, body: object) => weir.admin<T>(path, { method: 'POST', body });
      await create('/tenants', { id: 'acme' });
      const made = await create<{ id: string; key: string }>('/keys', {
        name: 'acme server',
        tenantId: 'acme',
      });
      keyId = made.id;
      const limit = { scope: 'ip', limit: 2, windowSeconds: 3_600 };
      await create('/rules', { ...limit, resource: '/acme/login', name: 'login-ip' });
      key = made.key;
    });

    it('leads from the overview to its tenant, and to what was denied and as whom it was counted', async () => {
      // No rule applied to this path before, so the isolate learns of the new one within a second.
      await expect.poll(send).toBe(429);
      for (let i = 0; i < 6; i += 1) await send();
      const violators = () => test().weir.admin<{ items: unknown[] }>('/violators?tenant=acme');
      await expect.poll(async () => (await violators()).items).toHaveLength(1);
      const { page, trouble } = await test().open();
      const row = page.locator('section:has-text("Denied most") tr:has-text("acme server")');
      expect(await row.innerText()).toContain(keyId);
      await row.getByRole('link', { name: 'acme', exact: true }).click();
      await page.waitForSelector('h1:has-text("Tenant acme")');
      const sentence = page.locator('.denied-by li');
      await expect
        .poll(() => sentence.innerText())
        .toMatch(/^Denied 7 times in the last day by login-ip [0-9a-f-]{36}, as ip 198\.51\.100\.10\.$/);
      await page.waitForSelector('.empty:has-text("depends on the address")');
      await page.waitForSelector('h3:has-text("Depends on the address") + table tr:has-text("login-ip")');
      // The page of the address shows what is left, and who is behind it.
      await sentence.getByRole('link', { name: SERVER }).click();
      await page.waitForSelector('tr:has-text("login-ip"):has-text("denied now")');
      await page.waitForSelector('p:has-text("denied at this address: apiKey acme server")');
      await page.getByRole('link', { name: 'acme server' }).first().click();
      await page.waitForSelector('h1:has-text("API key acme server")');
      expect(trouble).toEqual([]);
    });

    it('with the id of the request leads to the rule, the numbers and the caller, and to nothing secret', async () => {
      const { page, go, trouble } = await test().open();
      await go('#/denials');
      await page.fill('[name=id]', requestId);
      await page.click('main form button');
      const way = page.locator('.way');
      await expect.poll(() => way.innerText()).toContain('Answer 429 rate-limited');
      const text = await way.innerText();
      expect(text).toContain(requestId);
      expect(text).toContain('POST, to the route default, near the region us');
      expect(text).toContain(`key acme server ${keyId}, tenant acme`);
      expect(text).toMatch(
        /login-ip [0-9a-f-]{36} for \/acme\/login: 2 every hour, counted as ip 198\.51\.100\.10\./,
      );
      expect(text).toContain('0 were left, and the request took 1.');
      expect(text).not.toContain('secret');
      await go('#/denials?tenant=acme');
      await page.waitForSelector(`td:has-text("${requestId}")`);
      await go('#/denials/no-such-request-1');
      await page.waitForSelector('.empty:has-text("The sample does not have this request")');
      expect(trouble).toEqual([]);
    });

    it('needs no address to be explained: what depends on it is said', async () => {
      const { page, go } = await test().open();
      await go('#/explain');
      await page.fill('[name=path]', '/acme/login');
      await page.fill('[name=tenantId]', 'acme');
      await page.click('form.explain button');
      await page.waitForSelector('.way li:has-text("login-ip"):has-text("depends on the address")');
      await page.waitForSelector('.way .verdict:has-text("depends on the address")');
    });
  });
}
