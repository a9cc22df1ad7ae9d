// Two bindings that Miniflare does not have by itself: a KV namespace kept by a Worker, and the store of one of
// Miniflare's own KV namespaces as a plain service. Miniflare loads this file by its path, as a plugin.
import type { Plugin } from 'miniflare';

export const PLUGIN_NAME = 'kv-faults';

const types = {
  'unsafe:kv-kept-by-worker': ({ worker }: Options) => ({ kvNamespace: { name: `core:user:${worker}` } }),
  'unsafe:kv-store': ({ namespace }: Options) => ({
    service: { name: 'kv:ns:entry', props: { json: JSON.stringify({ MINIFLARE_NAMESPACE: namespace }) } },
  }),
};
type Options = Readonly<Record<string, unknown>>;

const plugin: Plugin = {
  getBindings({ config }) {
    return Object.entries(config.env ?? {}).flatMap(([name, binding]) => {
      const render = types[binding.type as keyof typeof types];
      const options = (binding as { dev?: { options?: Options } }).dev?.options ?? {};
      return render ? [{ name, ...render(options) }] : [];
    });
  },
  getNodeBindings: () => ({}),
  getServices: async () => [],
};

export const plugins = { [PLUGIN_NAME]: plugin };
