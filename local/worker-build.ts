// Builds the Worker of src with esbuild. A bench builds a changed one in the same way.
import { fileURLToPath } from 'node:url';
import type { BuildOptions } from 'esbuild';

export const ROOT = fileURLToPath(new URL('..', import.meta.url));

export const WORKER_BUILD = {
  absWorkingDir: ROOT,
  bundle: true,
  splitting: true,
  format: 'esm',
  target: 'es2024',
  minify: true,
  // wrangler.toml refers to them by this name.
  chunkNames: 'weir-[name]-[hash]',
  conditions: ['workerd', 'worker', 'browser'],
  loader: { '.lua': 'text' },
  external: ['cloudflare:*'],
} satisfies BuildOptions;
