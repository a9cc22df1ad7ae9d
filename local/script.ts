// Puts the Lua files of lua/counters together into the one script that Redis runs. `npm run script` prints it, and
// `npm run script -- --write` keeps it in lua/counters.lua, which a test compares with the files.
import { readFileSync, writeFileSync } from 'node:fs';
import { ALGORITHM_IDS } from '../src/core/counting/algorithms/registry.ts';
import { OPERATIONS } from '../src/core/counting/check.ts';

const FOLDER = new URL('../lua/', import.meta.url);
const COMPOSED = new URL('counters.lua', FOLDER);

/** Without this flag Upstash locks the whole database for the run instead of the keys named in KEYS. */
const FLAG = '#!lua flags=allow-key-locking';
/** Where a file of an algorithm has its section of the straight part, and where this part takes all sections. */
const SECTION = /^ *--@take$/m;

const read = (name: string): string => readFileSync(new URL(`counters/${name}.lua`, FOLDER), 'utf8');

/** Comments stay in the files: the script has the name of each. */
const withName = (name: string, text: string): string =>
  `-- lua/counters/${name}.lua\n${text.replace(/^ *--.*\n/gm, '').trim()}`;

export function composeScript(): string {
  const algorithms = ALGORITHM_IDS.map((id) => {
    const [functions = '', section = ''] = read(`algorithms/${id}`).split(SECTION);
    return { name: `algorithms/${id}`, functions, section };
  });
  const sections = algorithms.map(({ section }) => section.replace(/^(?=.)/gm, '      ').trimEnd());
  const [before, after] = read('take').split(SECTION);
  const parts: readonly (readonly [name: string, text: string])[] = [
    ['take', `${before}${sections.join('')}${after}`],
    ['arithmetic', read('arithmetic')],
    ['algorithms', read('algorithms')],
    ...algorithms.map(({ name, functions }) => [name, functions] as const),
    ...['arguments', 'records', 'counting', 'operations'].map((name) => [name, read(name)] as const),
    ...OPERATIONS.map((name) => [`operations/${name}`, read(`operations/${name}`)] as const),
    ['run', read('run')],
  ];
  return `${[FLAG, ...parts.map(([name, text]) => withName(name, text))].join('\n\n')}\n`;
}

if (import.meta.main) {
  const text = composeScript();
  if (process.argv.includes('--write')) writeFileSync(COMPOSED, text);
  else process.stdout.write(text);
}
