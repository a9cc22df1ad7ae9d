// Runs every JSON and every SQL of docs/rules.md in order, as a reader would, and the sessions of
// docs/rule-sessions.md.
import { readFileSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { seedDemoSet } from '../../local/demo-set.ts';
import { type Admin, startAdmin } from '../admin/harness.ts';
import { runSession, sessions, showing } from './curl-sessions.ts';

const text = readFileSync(new URL('../../docs/rules.md', import.meta.url), 'utf8');
const BLOCK = /^```(json|sql) ?(.*)\n([\s\S]*?)^```$/gm;

interface Block {
  readonly language: string;
  readonly says: string;
  readonly code: string;
  readonly line: number;
}

const blocks: readonly Block[] = [...text.matchAll(BLOCK)].map((match) => ({
  language: match[1] ?? '',
  says: match[2] ?? '',
  code: match[3] ?? '',
  line: text.slice(0, match.index).split('\n').length,
}));

let admin: Admin;
let last: { readonly status: number; readonly body: Record<string, unknown> };
let lastId = '';
beforeAll(async () => {
  admin = await startAdmin();
  // The state that a reader has after `npm run dev`.
  await seedDemoSet(admin.db.url);
});
afterAll(() => admin?.[Symbol.asyncDispose]());

async function send(says: string, code: string): Promise<void> {
  const [method = '', path = ''] = says.replace('{id}', lastId).split(' ');
  const answer = await admin.call(path, { method, body: JSON.parse(code) });
  last = { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  if (typeof last.body['id'] === 'string') lastId = last.body['id'];
  expect(last.body).not.toHaveProperty('errors');
  expect(last.status).toBeLessThan(300);
}

function compare(says: string, code: string): void {
  expect(last.status).toBe(Number(says.split(' ')[1]));
  const { doesNotApply, ...told } = JSON.parse(code) as Record<string, unknown>;
  expect(last.body).toMatchObject(told);
  // Of the rules that do not apply, a page shows only the relevant ones.
  for (const one of (doesNotApply as object[] | undefined) ?? [])
    expect(last.body['doesNotApply']).toContainEqual(expect.objectContaining(one));
}

async function runSql(code: string): Promise<void> {
  const client = new pg.Client({ connectionString: admin.db.url });
  await client.connect();
  try {
    expect((await client.query(code)).rowCount).toBe(1);
  } finally {
    await client.end();
  }
}

it('docs/rules.md has examples to run', () => {
  expect(blocks.length).toBeGreaterThan(20);
});

it.each(blocks)('docs/rules.md, line $line: $language $says', async ({ language, says, code }) => {
  if (language === 'sql') await runSql(code);
  else if (says.startsWith('answer ')) compare(says, code);
  else await send(says, code);
});

it('docs/rule-sessions.md has eleven sessions', () => {
  expect(sessions.map(({ title }) => Number.parseInt(title, 10))).toEqual(
    Array.from({ length: 11 }, (_, i) => i + 1),
  );
});

it.each(sessions)('docs/rule-sessions.md, session $title', async ({ commands, answer }) => {
  expect(await runSession(admin, commands)).toEqual(showing(JSON.parse(answer)));
});
