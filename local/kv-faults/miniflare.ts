// The KV of the isolates as Miniflare options: each isolate's binding leads to one Worker that can fail on demand, and
// from there to Miniflare's own KV.
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { transform } from 'esbuild';
import type { Miniflare } from 'miniflare';
import { LOOPBACK } from '../ports.ts';
import { PLUGIN_NAME } from './plugin.ts';

export const KV_WORKER = 'kv-with-faults';
const NAMESPACE = 'rules';
const CONTROL = 'control';
const plugin = {
  package: fileURLToPath(new URL('./plugin.ts', import.meta.url)),
  name: PLUGIN_NAME,
};

/** The Worker sees an ordinary KV namespace. */
export const kvBinding = (name: string) => ({
  name,
  type: 'kv-kept-by-worker',
  plugin,
  options: { worker: KV_WORKER },
});

export async function kvWorker(compatibility: { compatibilityDate: string }) {
  const source = await readFile(new URL('./worker.ts', import.meta.url), 'utf8');
  const { code } = await transform(source, { loader: 'ts', format: 'esm' });
  return {
    name: KV_WORKER,
    modules: [{ type: 'ESModule' as const, path: 'kv-with-faults.js', contents: code }],
    ...compatibility,
    kvNamespaces: { RULES: NAMESPACE },
    unsafeBindings: [{ name: 'STORE', type: 'kv-store', plugin, options: { namespace: NAMESPACE } }],
    unsafeDirectSockets: [{ host: LOOPBACK, port: 0, entrypoint: CONTROL }],
  };
}

export const kvControlUrl = async (miniflare: Miniflare): Promise<string> =>
  (await miniflare.unsafeGetDirectURL(KV_WORKER, CONTROL)).href;
