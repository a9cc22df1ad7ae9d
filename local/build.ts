// Builds the Worker into `dist`: the gateway in index.js, and what most isolates never need (src/core/when-needed.ts) in
// files beside it, which an isolate evaluates when it first imports them. wrangler runs this before it serves or
// deploys; by itself it would put everything into one file, and all of that would be read at each cold start.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { buildPage, replaceFiles } from './page-build.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const FOLDER = join(ROOT, 'dist');

const { outputFiles } = await build({
  absWorkingDir: ROOT,
  entryPoints: ['src/index.ts'],
  outdir: FOLDER,
  bundle: true,
  splitting: true,
  format: 'esm',
  target: 'es2024',
  minify: true,
  sourcemap: 'linked',
  // wrangler.toml knows them by this name.
  chunkNames: 'weir-[name]-[hash]',
  conditions: ['workerd', 'worker', 'browser'],
  loader: { '.lua': 'text' },
  external: ['cloudflare:*'],
  write: false,
});

await mkdir(FOLDER, { recursive: true });
await replaceFiles(FOLDER, outputFiles, (name) => !name.endsWith('.draft'));
await buildPage();
