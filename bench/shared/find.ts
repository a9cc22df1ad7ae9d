// Finds the benches: every file of this folder's parent that exports `run`.
import { readdirSync, readFileSync } from 'node:fs';
import type { BenchModule } from './bench.ts';

const folder = new URL('../', import.meta.url);

export const findBenches = (): string[] =>
  readdirSync(folder)
    .filter((file) => file.endsWith('.ts'))
    .filter((file) =>
      /^export (const|async function) run\b/m.test(readFileSync(new URL(file, folder), 'utf8')),
    )
    .map((file) => file.slice(0, -'.ts'.length));

export const loadBench = async (name: string): Promise<BenchModule> =>
  (await import(`../${name}.ts`)) as BenchModule;
