// People read docs in terminals and in diffs, so a line has at most 100 columns.
import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const ROOT = new URL('../../', import.meta.url);
const COLUMNS = 100;
const FILES = [
  ...['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'docs/decisions/README.md'],
  ...readdirSync(new URL('docs/', ROOT))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

/** Code and tables cannot be wrapped. */
function wideLinesOf(text: string): string[] {
  let isCode = false;
  return text.split('\n').filter((line) => {
    if (line.trimStart().startsWith('```')) isCode = !isCode;
    return !isCode && !/^[|#]/.test(line) && [...line].length > COLUMNS;
  });
}

it.each(FILES)('%s has no line wider than 100 columns', (file) => {
  expect(wideLinesOf(readFileSync(new URL(file, ROOT), 'utf8'))).toEqual([]);
});
