// Builds `lib`, which `npm pack` packs: a JavaScript file for each entry of the package, the modules that the entries
// share or load when needed, and the types of the entries. Imports of packages that npm installs with Weir stay
// imports. What a development dependency gives becomes a part of the file.
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type BuildOptions, build } from 'esbuild';
import manifest from '../package.json' with { type: 'json' };

const { dependencies, peerDependencies } = manifest;
const ROOT = fileURLToPath(new URL('..', import.meta.url));
const LIB = join(ROOT, 'lib');
const TSC = fileURLToPath(new URL('../node_modules/typescript/bin/tsc', import.meta.url));

/** By the name that users import. */
const ENTRIES = {
  hono: 'src/hono',
  fetch: 'src/fetch',
  worker: 'src/worker',
  client: 'src/client',
  schema: 'src/schema',
};

/** The command line. Nobody imports it. */
const PROGRAMS = { cli: 'cli/bin' };

/** esbuild keeps the comments of object literals. Editors read them in the types. */
const COMMENT = /^ *\/\*\*.*?\*\/\n/gms;

async function buildCode(): Promise<void> {
  const { client, ...others } = ENTRIES;
  // The client is one file, which a browser can load.
  await Promise.all([
    bundle({ client }, {}),
    bundle(others, NODE_20),
    bundle(PROGRAMS, { ...NODE_20, platform: 'node', minify: true }),
  ]);
}

async function bundle(entries: Readonly<Record<string, string>>, options: BuildOptions): Promise<void> {
  const { outputFiles = [] } = await build({
    write: false,
    absWorkingDir: ROOT,
    entryPoints: Object.fromEntries(Object.entries(entries).map(([name, file]) => [name, `${file}.ts`])),
    outdir: LIB,
    bundle: true,
    splitting: true,
    external: ['cloudflare:*', 'node:*', ...Object.keys({ ...dependencies, ...peerDependencies })],
    format: 'esm',
    target: 'es2024',
    chunkNames: 'modules/[name]-[hash]',
    loader: { '.lua': 'text' },
    ...options,
  });
  await mkdir(join(LIB, 'modules'), { recursive: true });
  await Promise.all(outputFiles.map(({ path, text }) => writeFile(path, text.replace(COMMENT, ''))));
}

/** The functions of `local/node-20.ts` take the place of what Node 20 does not have. */
const NODE_20 = {
  inject: ['local/node-20.ts'],
  define: {
    'Map.groupBy': 'groupInMap',
    'Object.groupBy': 'groupInObject',
    'Promise.withResolvers': 'withResolvers',
    'URL.parse': 'parseUrl',
  },
};

const IMPORT = /(?<=\b(?:from |import\()['"])(\.[^'"]+)\.ts(?=['"])/g;

/** TypeScript keeps the file names of the sources in its imports. In a package they end with .js. */
async function copyTypes(from: string, file: string, copied: Set<string>): Promise<void> {
  if (copied.has(file)) return;
  copied.add(file);
  const text = await readFile(join(from, `${file}.d.ts`), 'utf8');
  const target = join(LIB, 'types', relative('src', `${file}.d.ts`));
  await mkdir(dirname(target), { recursive: true });
  await writeFile(target, text.replace(IMPORT, '$1.js'));
  for (const [, path = ''] of text.matchAll(IMPORT)) await copyTypes(from, join(dirname(file), path), copied);
}

async function buildTypes(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'weir-types-'));
  try {
    const args = [TSC, '-p', 'tsconfig.package.json', '--singleThreaded', '--outDir', folder];
    await promisify(execFile)(process.execPath, args, { cwd: ROOT });
    const copied = new Set<string>();
    for (const file of Object.values(ENTRIES)) await copyTypes(folder, file, copied);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

await rm(LIB, { recursive: true, force: true });
await Promise.all([buildCode(), buildTypes()]);
