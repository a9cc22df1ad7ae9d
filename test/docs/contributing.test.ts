// Every bench is named in CONTRIBUTING.md.
import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const ROOT = new URL('../../', import.meta.url);
const text = readFileSync(new URL('CONTRIBUTING.md', ROOT), 'utf8');
const isBench = (file: string) =>
  /^export (const|async function) run\b/m.test(readFileSync(new URL(`bench/${file}`, ROOT), 'utf8'));
const benches = readdirSync(new URL('bench/', ROOT)).filter((file) => file.endsWith('.ts') && isBench(file));

it.each(benches)('CONTRIBUTING.md names the bench %s', (file) => {
  expect(text).toContain(`\`npm run bench -- ${file.slice(0, -'.ts'.length)}\``);
});
