// Builds the Worker into `dist`: the gateway in index.js, and beside it the modules that most isolates never need
// (src/core/lazy-module.ts). An isolate evaluates such a module when it first imports it. wrangler runs this build
// before it serves or deploys. By itself wrangler would write one file, and every cold start would read all of it.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';
import { buildPage, replaceFiles } from './page-build.ts';
import { ROOT, WORKER_BUILD } from './worker-build.ts';

const FOLDER = join(ROOT, 'dist');

const { outputFiles } = await build({
  ...WORKER_BUILD,
  entryPoints: { index: 'src/worker.ts' },
  outdir: FOLDER,
  sourcemap: 'linked',
  write: false,
});

await mkdir(FOLDER, { recursive: true });
await replaceFiles(FOLDER, outputFiles, (name) => !name.endsWith('.draft'));
await buildPage();
