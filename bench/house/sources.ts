// Counts the sources: files, lines of code, exported types.

import { globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ROOT } from '../../local/worker-build.ts';

export interface SourceCounts {
  readonly files: number;
  readonly lines: number;
  /** Without imports, comments and blank lines. */
  readonly codeLines: number;
  readonly longestFile: number;
  readonly exportedTypes: number;
}

export async function countSources(): Promise<SourceCounts> {
  const names = globSync('src/**/*.{ts,tsx}', { cwd: ROOT });
  const texts = await Promise.all(names.map((name) => readFile(join(ROOT, name), 'utf8')));
  const sum = (of: (text: string) => number) => texts.reduce((total, text) => total + of(text), 0);
  return {
    files: texts.length,
    lines: sum(linesIn),
    codeLines: sum(codeLinesIn),
    longestFile: Math.max(...texts.map(linesIn)),
    exportedTypes: sum((text) => text.match(/^export (?:interface|type|class) [A-Z]/gm)?.length ?? 0),
  };
}

const linesIn = (text: string) => text.split('\n').length - 1;

const IMPORTS = /^import\s[^;]*;$|^export (?:\*|(?:type )?\{[^}]*\}) from [^;]*;$/gm;
/** No comment begins behind code, so a line that begins a comment holds nothing else. */
const COMMENTS = /^\s*\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm;

export const codeLinesIn = (text: string): number =>
  text
    .replace(IMPORTS, '')
    .replace(COMMENTS, '')
    .split('\n')
    .filter((line) => line.trim() !== '').length;
