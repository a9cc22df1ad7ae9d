// Streams the full export, a page of rows at a time, so that an isolate never holds all of it.
import type { Database } from '../../rules/tables/database.ts';
import { type CallerKind, readCallerPages } from './caller-document.ts';
import { readStoredRows, toDocument } from './import-document.ts';

/**
 * The export reads pages one after the other, while other clients may write. So it reads referenced rows last: if a
 * client creates a tenant and its users meanwhile, the document has the tenant of every user in it.
 */
const READ_IN_ORDER: readonly CallerKind[] = ['keys', 'users', 'tenants', 'lists'];

export async function* everythingAsText(database: Database): AsyncGenerator<string> {
  yield '{\n  "weir": 1';
  for (const kind of READ_IN_ORDER) yield* listAsText(kind, readCallerPages(database, kind));
  const { tiers, rules, routes, settings } = toDocument(await readStoredRows(database));
  for (const [name, entries] of Object.entries({ tiers, rules, routes })) yield* listAsText(name, [entries]);
  yield `,\n  "settings": ${JSON.stringify(settings)}\n}\n`;
}

type Pages = AsyncIterable<readonly object[]> | Iterable<readonly object[]>;

/** Writes one line for each entry, so that two backups can be compared. */
async function* listAsText(name: string, pages: Pages): AsyncGenerator<string> {
  yield `,\n  "${name}": [`;
  let separator = '\n';
  for await (const page of pages) {
    const lines = page.map((entry) => `    ${JSON.stringify(entry)}`);
    if (lines.length === 0) continue;
    yield separator + lines.join(',\n');
    separator = ',\n';
  }
  yield separator === '\n' ? ']' : '\n  ]';
}

export function toStream(texts: AsyncGenerator<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    async pull(controller) {
      const { value, done } = await texts.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(value));
    },
  });
}
