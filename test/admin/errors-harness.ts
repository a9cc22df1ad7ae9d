// Helpers for tests of errors: a request that is refused, and the text of the refusal.
import { expect } from 'vitest';
import type { Admin, AdminCall } from './harness.ts';
import { readProblem } from './samples.ts';

export type Call = [path: string, options?: AdminCall];

export const post = (path: string, body: unknown): Call => [path, { method: 'POST', body }];

export async function readRefusal(admin: Admin, [path, options]: Call) {
  const response = await admin.call(path, options);
  const { status, code, errors } = await readProblem(response);
  expect(response.status).toBe(status);
  return { status, code, at: errors?.map(({ pointer, detail }) => `${pointer} ${detail}`) };
}
