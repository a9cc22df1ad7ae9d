// A real KV namespace for one caller. All files of a worker share one Miniflare, because each start is a process.
import { convertV4MiniflareOptions, Miniflare } from 'miniflare';
import type { Kv } from '../../src/rules/edge/published.ts';

type Namespace = Awaited<ReturnType<Miniflare['getKVNamespace']>>;

export interface TestKv extends AsyncDisposable {
  /** Also has the methods that tests need. */
  readonly kv: Kv & Pick<Namespace, 'list' | 'delete'>;
}

/** More than a run of all files uses. */
const NAMES = Array.from({ length: 200 }, (_, i) => `KV${i}`);
let miniflare: Miniflare | undefined;
let taken = 0;

export async function startKv(): Promise<TestKv> {
  miniflare ??= new Miniflare(
    convertV4MiniflareOptions({
      modules: true,
      script: 'export default { fetch: () => new Response() }',
      kvNamespaces: NAMES,
    }),
  );
  const kv = await miniflare.getKVNamespace(NAMES[taken++] ?? 'there is none left');
  return { kv, [Symbol.asyncDispose]: async () => {} };
}
