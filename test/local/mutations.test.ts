// The changes that `npm run mutants` makes: each leaves a program that can be parsed, and differs from the source.
import { globSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { expect, it } from 'vitest';
import { type Mutation, mutationsOf } from '../../local/mutations.ts';

const apply = (source: string, { start, end, text }: Mutation) =>
  source.slice(0, start) + text + source.slice(end);
const changesOf = (source: string) =>
  mutationsOf(source).map((one) => [one.line, apply(source, one).split('\n')[one.line - 1]]);

it('changes conditions, operators, literals and statements, one at a time', () => {
  const source = 'let n: number = 0;\nif (!(n < 1) && ready) call(n ?? 2, true);\nn = Math.max(n, m);';
  expect(changesOf(source)).toEqual([
    [1, 'let n: number = 1;'],
    [2, 'if ((n < 1) && ready) call(n ?? 2, true);'],
    [2, 'if (!(!(n < 1) && ready)) call(n ?? 2, true);'],
    [2, 'if (!(n <= 1) && ready) call(n ?? 2, true);'],
    [2, 'if (!(n < 2) && ready) call(n ?? 2, true);'],
    [2, 'if (!(n < 1) || ready) call(n ?? 2, true);'],
    [2, 'if (!(n < 1) && ready) ;'],
    [2, 'if (!(n < 1) && ready) call((n), true);'],
    [2, 'if (!(n < 1) && ready) call(n ?? 3, true);'],
    [2, 'if (!(n < 1) && ready) call(n ?? 2, false);'],
    [3, ';'],
    [3, 'n = Math.min(n, m);'],
  ]);
});

it.each(globSync('src/limiter/*.ts'))('leaves a valid program: %s', (file) => {
  const source = readFileSync(file, 'utf8');
  for (const mutation of mutationsOf(source)) {
    expect(apply(source, mutation)).not.toBe(source);
    stripTypeScriptTypes(apply(source, mutation));
  }
});
