// Builds the Worker into `dist`: the gateway in index.js, and what most isolates never need (src/core/when-needed.ts) in
// files beside it, which an isolate evaluates when it first imports them. wrangler runs this before it serves or
// deploys; by itself it would put everything into one file, and all of that would be read at each cold start.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';
import { buildPage, replaceFiles } from './page-build.ts';
import { ROOT, WORKER_BUILD } from './worker-build.ts';

const FOLDER = join(ROOT, 'dist');

const { outputFiles } = await build({
  ...WORKER_BUILD,
  entryPoints: ['src/index.ts'],
  outdir: FOLDER,
  sourcemap: 'linked',
  write: false,
});

await mkdir(FOLDER, { recursive: true });
await replaceFiles(FOLDER, outputFiles, (name) => !name.endsWith('.draft'));
await buildPage();
