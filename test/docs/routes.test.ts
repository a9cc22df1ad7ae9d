// Runs every JSON of docs/routes.md and docs/callers.md that names a request, in order, as a reader would.
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Admin, startAdmin } from '../admin/harness.ts';

const blocksOf = (page: string) => {
  const text = readFileSync(new URL(`../../docs/${page}`, import.meta.url), 'utf8');
  return [...text.matchAll(/^```json (POST \S+|answer \d+)\n([\s\S]*?)^```$/gm)].map((match) => ({
    says: match[1] ?? '',
    body: JSON.parse(match[2] ?? '') as object,
  }));
};

let admin: Admin;
let last: Response;
beforeAll(async () => {
  admin = await startAdmin();
});
afterAll(() => admin?.[Symbol.asyncDispose]());

describe.each([
  ['routes.md', 5],
  ['callers.md', 4],
])('docs/%s', (page, least) => {
  const blocks = blocksOf(page);

  it('has examples to run', () => {
    expect(blocks.length).toBeGreaterThanOrEqual(least);
  });

  it.each(blocks)('$says $body', async ({ says, body }) => {
    const [method = '', what = ''] = says.split(' ');
    if (method === 'POST') {
      last = await admin.call(what, { method, body });
      expect([last.ok, await last.clone().text()]).toEqual([true, expect.any(String)]);
    } else {
      expect(last.status).toBe(Number(what));
      expect(await last.json()).toMatchObject(body);
    }
  });
});
