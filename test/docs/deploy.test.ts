// The guide to production and the page about cost: the commands that they show exist, and so do the targets of links.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readVariables } from '../../local/variable-table.ts';

const ROOT = new URL('../../', import.meta.url);
const read = (path: string) => readFileSync(new URL(path, ROOT), 'utf8');
const guide = read('docs/deploy.md');
const scripts = (JSON.parse(read('package.json')) as { scripts: Record<string, string> }).scripts;
const all = (text: string, pattern: RegExp) => [
  ...new Set([...text.matchAll(pattern)].map(([, one]) => one ?? '')),
];
const anchorsOf = (text: string) =>
  all(text, /^#+ (.+)$/gm).map((title) =>
    title
      .toLowerCase()
      .replace(/[^\w\s-]/g, '')
      .replaceAll(' ', '-'),
  );

it.each(all(guide, /npm run ([\w:]+)/g))('npm run %s is a script', (name) => {
  expect(Object.keys(scripts)).toContain(name);
});

it.each(all(guide, /(?:npx |^\| `)weir ([a-z]+)/gm))('weir %s is a command', (name) => {
  expect(read('cli/weir.ts')).toMatch(new RegExp(`COMMANDS[^}]*\\b${name}\\b`));
});

it('docs/deploy.md explains every command of weir', () => {
  const commands = /COMMANDS[^{]*\{([^}]*)\}/.exec(read('cli/weir.ts'))?.[1] ?? '';
  for (const name of all(commands, /(\w+)/g)) expect(guide).toContain(`weir ${name}`);
});

it('docs/deploy.md says how to rotate every secret of the Worker', () => {
  const secrets = readVariables()
    .filter(({ text }) => text.startsWith('Secret.'))
    .map(({ name }) => name);
  expect(secrets).toContain('REGIONS');
  const table = guide.slice(guide.indexOf('## Rotating secrets'), guide.indexOf('## The command line'));
  for (const name of secrets) expect(table).toContain(`\`${name}\``);
});

describe.each(['docs/deploy.md', 'docs/cost.md', 'rules/README.md'])('%s', (page) => {
  const links = all(read(page), /\]\(((?!https?:)[^)]+)\)/g);
  it.each(links.length > 0 ? links : ['#'])('links to %s, which is there', (link) => {
    const [path = '', anchor] = link.split('#');
    const target = path === '' ? new URL(page, ROOT) : new URL(path, new URL(page, ROOT));
    expect(existsSync(target)).toBe(true);
    if (anchor) expect(anchorsOf(readFileSync(target, 'utf8'))).toContain(anchor);
  });
});

it('the folder rules/ has no migration of Weir', () => {
  expect(readdirSync(new URL('rules', ROOT))).toEqual(['README.md']);
});
