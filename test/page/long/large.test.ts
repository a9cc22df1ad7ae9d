// The page with 10,000 rules and 100,000 denials, its size, and its pictures for the docs. For `npm run test:long`.
import { writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type OpenedPage, type PageTest, startPageTest } from '../browser.ts';

const IMAGES = new URL('../../../docs/images/', import.meta.url);
const CALLER = '203.0.113.7';
const ruleOf = (name: string, resource: string) => ({
  name,
  resource,
  scope: 'ip',
  algorithm: 'token-bucket',
  limit: 30,
  windowSeconds: 60,
});

let test: PageTest;
let stopTraffic = () => {};
beforeAll(async () => {
  test = await startPageTest();
  const { weir } = test;
  await weir.admin('/rules', { method: 'POST', body: ruleOf('logins', '/login') });
  await weir.admin('/rules', { method: 'POST', body: { ...ruleOf('everything', '/*'), limit: 600 } });
  stopTraffic = sendTraffic();
});
afterAll(async () => {
  stopTraffic();
  await test?.[Symbol.asyncDispose]();
});

/** Some callers, one of which hammers. Call the result to end the traffic. */
function sendTraffic(): () => void {
  let sent = 0;
  const timer = setInterval(() => {
    sent += 1;
    const isHammer = sent % 3 === 0;
    const ip = isHammer ? CALLER : `192.0.2.${sent % 9}`;
    const region = ['us', 'eu', 'ap'][sent % 3] ?? 'us';
    void test.weir
      .call(isHammer ? '/login' : '/orders', { ip, region, isolate: isHammer ? 'one' : 'two' })
      .catch(() => {});
  }, 50);
  return () => clearInterval(timer);
}

async function picture({ page }: OpenedPage, name: string): Promise<void> {
  const bytes = await page.screenshot({ type: 'jpeg', quality: 70 });
  expect(bytes.length).toBeGreaterThan(5_000);
  if (process.env['WEIR_IMAGES']) await writeFile(new URL(`page-${name}.jpg`, IMAGES), bytes);
}

it.each(['light', 'dark'] as const)(
  'the overview has a moving curve and links to callers, %s',
  async (theme) => {
    const opened = await test.open({ theme, width: 900 });
    const { page } = opened;
    const seen = new Set<string>();
    const note = page.locator('figure [role=note]');
    await expect
      .poll(async () => seen.add(await note.innerText()).size, { timeout: 120_000, interval: 1_000 })
      .toBeGreaterThan(12);
    await page.locator('section:has-text("Denied most") a').first().waitFor();
    await picture(opened, `overview-${theme}`);
    await opened.go(`#/callers/ip/${CALLER}`);
    await page.getByRole('button', { name: 'Override logins' }).waitFor();
    await page.waitForTimeout(10_000);
    await picture(opened, `caller-${theme}`);
  },
);

it('the overview takes few requests and bytes', async () => {
  const { page, context } = await test.open({ isFresh: true });
  const fresh = await context.newPage();
  let bytes = 0;
  let requests = 0;
  fresh.on('response', async (response) => {
    requests += 1;
    bytes += (await response.body().catch(() => Buffer.alloc(0))).length;
  });
  await fresh.goto(`${test.url}/_weir/`);
  await fresh.locator('.tile').first().waitFor();
  const paintMs = await fresh.evaluate(
    "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1",
  );
  console.log(
    `the overview: ${requests} requests, ${bytes} bytes before compression, first paint after ${paintMs} ms`,
  );
  expect(requests).toBeLessThan(20);
  expect(bytes).toBeLessThan(300_000);
  await page.close();
});

it('all views load with 10,000 rules and 100,000 denials', async () => {
  await test.weir.sql(`
    insert into weir.rules (name, resource, scope, algorithm, "limit", window_seconds, enabled)
    select 'rule ' || n, '/r/' || n, 'ip', 'fixed-window', 10, 60, n % 50 = 0 from generate_series(1, 10000) n`);
  await test.weir.sql(`
    insert into weir.denials (at, scope, rule_id, rule_name, subject, tenant_id, user_id, api_key_id, count)
    select date_trunc('minute', now()) - make_interval(mins => n % 1400), 'ip', 'r' || n % 100, 'rule ' || n % 100,
      '10.' || n % 200 || '.' || n / 400 || '.1', '', '', '', 1 + n % 5 from generate_series(1, 100000) n on conflict do nothing`);
  const { items } = await test.weir.admin<{ items: { id: string; name: string }[] }>('/rules?q=everything');
  const rule = items[0]?.id;
  await test.weir.sql(`
    update rules set scope = 'user' where id = '${rule}';
    insert into usage (at, tenant_id, user_id, api_key_id, rule_id, requests, cost)
    select date_trunc('hour', now()) - make_interval(hours => n / 5000), '', 'user ' || n % 5000, '', '${rule}', n % 90, n % 90
    from generate_series(0, 99999) n; analyze usage; analyze events`);
  const { page, go } = await test.open();
  const times: [string, number][] = [];
  const measure = async (hash: string, ready: string) => {
    const startedAtMs = performance.now();
    await go(hash);
    await page.locator(ready).first().waitFor();
    times.push([hash, Math.round(performance.now() - startedAtMs)]);
  };
  await measure('#/rules', 'tr:has-text("rule 1")');
  await measure('#/rules?q=rule+9999', 'tr:has-text("rule 9999")');
  await measure('#/violators?groupBy=all&since=24h', 'td:has-text("10.")');
  await measure('#/callers/ip/10.7.3.1', 'h2:has-text("Last denials")');
  const askedAtMs = performance.now();
  await test.weir.admin(`/rules/${rule}/would-deny?limit=50&windowSeconds=3600`);
  times.push(['would-deny of 100,000 rows of usage', Math.round(performance.now() - askedAtMs)]);
  console.log(
    `with 10,000 rules and 100,000 denials, in ms: ${times.map(([hash, ms]) => `${hash} ${ms}`).join(', ')}`,
  );
  expect(await page.locator('tbody tr').count()).toBeLessThan(300);
});
