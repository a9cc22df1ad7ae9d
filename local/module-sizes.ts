// Measures the Worker: what every cold isolate reads and evaluates, and all that is uploaded.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { modulesIn } from './bundle.ts';

export interface ModuleSizes {
  /** The names of the modules that an isolate evaluates at its start. The entry comes first. */
  readonly gateway: readonly string[];
  readonly gatewayKib: number;
  readonly all: readonly string[];
  readonly allKib: number;
}

/** Measures a folder that `buildWorker` has written to. Sizes are after gzip. */
export async function measureModules(folder: string): Promise<ModuleSizes> {
  const gateway = await readGateway(folder);
  const all = await modulesIn(folder);
  const texts = await Promise.all(all.map((name) => readFile(join(folder, name), 'utf8')));
  return {
    gateway: [...gateway.keys()],
    gatewayKib: gzipKib(gateway.values()),
    all,
    allKib: gzipKib(texts),
  };
}

/** The code of the entry and of all its static imports, by name. Modules loaded with `import()` are not among them. */
export async function readGateway(folder: string, name = 'index.js', known = new Map<string, string>()) {
  const code = await readFile(join(folder, name), 'utf8');
  known.set(name, code);
  for (const [, imported = ''] of code.matchAll(/(?:from|import)\s*"\.\/([^"]+)"/g))
    if (!known.has(imported)) await readGateway(folder, imported, known);
  return known;
}

const gzipKib = (texts: Iterable<string>) => gzipSync([...texts].join('')).length / 1024;
