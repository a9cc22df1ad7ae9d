// The sessions of docs/rule-sessions.md, run as a reader would: by a shell and curl, over loopback.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { type Admin, TOKENS } from '../admin/harness.ts';

const page = readFileSync(new URL('../../docs/rule-sessions.md', import.meta.url), 'utf8');
const [START = '', ...SESSIONS] = page.split(/^## /m);
const OWN_PATHS = '/_weir/admin';

const blockOf = (section: string, language: string): string =>
  new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(section)?.[1] ?? '';

export const sessions = SESSIONS.map((section) => ({
  title: section.slice(0, section.indexOf('\n')),
  commands: blockOf(section, 'sh'),
  answer: blockOf(section, 'json'),
}));

/** Resolves to the last line that the session prints, as JSON. */
export async function runSession(admin: Admin, commands: string): Promise<unknown> {
  const server = createServer(async (request, response) => {
    const body = await textOf(request);
    const answer = await admin.call((request.url ?? '').slice(OWN_PATHS.length), {
      method: request.method ?? '',
      ...(body !== '' && { text: body, headers: { 'Content-Type': 'application/json' } }),
    });
    response.writeHead(answer.status).end(await answer.text());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const { port } = server.address() as AddressInfo;
    const env = { ...process.env, WEIR: `http://127.0.0.1:${port}`, TOKEN: TOKENS.admin.token };
    const script = `set -eu\n${blockOf(START, 'sh')}\n${commands}`;
    const { stdout } = await promisify(execFile)('bash', ['-c', script], { env });
    return JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
  } finally {
    server.close();
  }
}

/** A page shows only a part of an answer: real objects may have more fields, and lists more entries. */
export function showing(value: unknown): unknown {
  if (Array.isArray(value)) return value.length === 0 ? value : expect.arrayContaining(value.map(showing));
  if (value === null || typeof value !== 'object') return value;
  return expect.objectContaining(
    Object.fromEntries(Object.entries(value).map(([name, member]) => [name, showing(member)])),
  );
}
