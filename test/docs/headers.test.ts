// Every header that Weir adds is explained in docs/operations.md.
import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const ROOT = new URL('../../', import.meta.url);
const page = readFileSync(new URL('docs/operations.md', ROOT), 'utf8');
const section = /^## Headers\n([\s\S]*?)^## /m.exec(page)?.[1] ?? '';

const sources = ['src/http/', 'src/gateway/', 'src/proxy/', 'src/checks/', 'src/admin/'].flatMap((folder) =>
  readdirSync(new URL(folder, ROOT), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => readFileSync(new URL(folder + file, ROOT), 'utf8')),
);
/** A name in a call of `set` or `append`, as a key, or as a constant. Weir only reads all other headers. */
const ADDED = [
  /\.(?:set|append)\(\s*'([A-Z][A-Za-z-]+|[a-z]+-[a-z-]+)'/g,
  /'((?:X|WWW|Retry|Cache|Content)-[A-Za-z-]+)':/g,
  /\['(X-[A-Za-z-]+)'\] = /g,
  /\b(ETag|Location|Allow): /g,
  /_HEADER = '([A-Za-z-]+)'/g,
];
/** These belong to the connection or to Weir's own bodies. `Cookie` and `Upgrade` are the client's, passed on. */
const NOT_ADDED = ['cookie', 'upgrade', 'content-type'];
const added = new Set(
  sources
    .flatMap((text) => ADDED.flatMap((pattern) => [...text.matchAll(pattern)].map((match) => match[1] ?? '')))
    .filter((name) => !NOT_ADDED.includes(name.toLowerCase())),
);

it('the search finds well-known headers', () => {
  for (const name of ['RateLimit', 'X-RateLimit-Reset', 'Retry-After', 'X-Weir-Tier', 'X-Weir-Hop'])
    expect([...added]).toContain(name);
});

it.each([...added])('docs/operations.md explains the header %s', (name) => {
  expect(section.toLowerCase()).toContain(`\`${name.toLowerCase()}\``);
});
