// The demo Worker and its binding, as Miniflare options.
import { readFile } from 'node:fs/promises';
import { transform } from 'esbuild';

export const DEMO_WORKER = 'weir-demo';
export const DEMO_BINDING = 'DEMO';

export async function demoWorker(compatibility: { compatibilityDate: string }) {
  const source = await readFile(new URL('./worker.ts', import.meta.url), 'utf8');
  const { code } = await transform(source, { loader: 'ts', format: 'esm' });
  return {
    name: DEMO_WORKER,
    modules: [{ type: 'ESModule' as const, path: 'weir-demo.js', contents: code }],
    ...compatibility,
  };
}
