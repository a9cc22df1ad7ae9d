// A real KV namespace of its own.
import { convertV4MiniflareOptions, Miniflare } from 'miniflare';
import type { Kv } from '../../src/rules/kv.ts';

type Namespace = Awaited<ReturnType<Miniflare['getKVNamespace']>>;

export interface TestKv extends AsyncDisposable {
  /** With what tests need besides. */
  readonly kv: Kv & Pick<Namespace, 'list' | 'delete'>;
}

export async function startKv(): Promise<TestKv> {
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      modules: true,
      script: 'export default { fetch: () => new Response() }',
      kvNamespaces: ['RULES'],
    }),
  );
  return {
    kv: await miniflare.getKVNamespace('RULES'),
    [Symbol.asyncDispose]: () => miniflare.dispose(),
  };
}
