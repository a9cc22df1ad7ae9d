// Publishing on demand: what it answers, and how a failure reads.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Publication } from '../../src/rules/publishing/publish.ts';
import { type Admin, startAdmin, TOKENS } from './harness.ts';

let admin: Admin;
let publish: () => Promise<Publication>;
const logged: string[] = [];
beforeAll(async () => {
  admin = await startAdmin({
    publish: () => publish(),
    log: { error: (event) => void logged.push(event) },
  });
});
afterAll(() => admin[Symbol.asyncDispose]());

const call = (token?: string) => admin.call('/publish', { method: 'POST', token });

test('publishing answers with the publication', async () => {
  const publication: Publication = {
    version: '0123456789abcdef',
    changed: true,
    ruleCount: 2,
    rejected: [{ id: 'a', name: 'b', problems: ['c'] }],
    warnings: [{ ruleIds: ['a'], message: 'm' }],
    regions: [
      { name: 'eu', announced: false },
      { name: 'us', announced: false, problem: 'ERR x' },
    ],
  };
  publish = async () => publication;
  const response = await call();
  expect(response.status).toBe(200);
  expect(await response.json()).toEqual(publication);
});

test.each([
  ['Postgres or KV did not answer.', new Error('password=secret')],
  [
    'The tables are missing. Run `npm run db:migrate`.',
    Object.assign(new Error('no table'), { code: '42P01' }),
  ],
])('a failed publication says: %s', async (detail, error) => {
  publish = () => Promise.reject(error);
  const response = await call();
  expect(response.status).toBe(503);
  expect(await response.json()).toMatchObject({
    code: 'publish-failed',
    detail: `${detail} The rules that were in force stay in force.`,
  });
  expect(logged.at(-1)).toBe('publish-failed');
});

test('publishing is refused to a token that may only read', async () => {
  expect((await call(TOKENS.read.token)).status).toBe(403);
});
