// The table of variables in docs/operations.md, made from src/config/variables.ts: `node local/variable-table.ts` writes
// it, and test/docs/variables.test.ts compares it.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { variablesOf } from '../src/config/variables.ts';
import type { FieldError, Fields } from '../src/core/shape.ts';

const SOURCE = fileURLToPath(new URL('../src/config/variables.ts', import.meta.url));
const PAGE = fileURLToPath(new URL('../docs/operations.md', import.meta.url));
const HEAD = '| variable | value | default | meaning |\n|---|---|---|---|\n';

interface Variable {
  readonly name: string;
  readonly text: string;
}

const shapesIn = (env: object): Fields => {
  const { core, bindings, deployment, forwarding } = variablesOf(env);
  return { ...core, ...forwarding, ...bindings, ...deployment };
};

/** Every variable, with its comment in the source. */
export function readVariables(): readonly Variable[] {
  const source = readFileSync(SOURCE, 'utf8');
  const comments = source.matchAll(/\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s+([A-Z][A-Z0-9_]*):/g);
  const byName = new Map(
    [...comments].map(([, comment = '', name = '']) => [
      name,
      comment.replace(/\s*\n\s*\*?\s*/g, ' ').trim(),
    ]),
  );
  return Object.keys(shapesIn({})).map((name) => {
    return { name, text: byName.get(name) ?? '' };
  });
}

/** What the variable may be, as its errors say it. */
function allowedFor(name: string): string {
  const errors: FieldError[] = [];
  shapesIn({})[name]?.('\0', name, errors);
  const [, allowed = ''] = /must (?:be|have) (.*?)(?:, not [^,]*)?$/.exec(errors[0]?.detail ?? '') ?? [];
  return allowed.replaceAll(/"([^"]*)"/g, '`$1`');
}

function defaultOf(name: string, env: object): string {
  const errors: FieldError[] = [];
  const value = shapesIn(env)[name]?.(undefined, name, errors);
  if (errors.length > 0) return 'required';
  if (value === undefined || Array.isArray(value)) return 'none';
  return typeof value === 'number' ? String(value) : `\`${value}\``;
}

function rowOf({ name, text }: Variable): string {
  const usual = defaultOf(name, {});
  const inDevelopment = defaultOf(name, { ENVIRONMENT: 'development' });
  const byDefault =
    usual === inDevelopment || name === 'ENVIRONMENT' ? usual : `${usual}; ${inDevelopment} in development`;
  return `| \`${name}\` | ${allowedFor(name)} | ${byDefault} | ${text} |\n`;
}

export const variableTable = (): string => HEAD + readVariables().map(rowOf).join('');

/** The page with the table as it should be. */
export function pageWithTable(page: string): string {
  const start = page.indexOf(HEAD);
  const end = page.indexOf('\n\n', start) + 1;
  return page.slice(0, start) + variableTable() + page.slice(end);
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  writeFileSync(PAGE, pageWithTable(readFileSync(PAGE, 'utf8')));
