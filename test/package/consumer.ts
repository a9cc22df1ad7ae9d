// An empty project with the files of docs/library.md: checks their types, bundles them, and runs them in workerd.
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { convertV4MiniflareOptions, Miniflare } from 'miniflare';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const bin = (path: string) => join(ROOT, 'node_modules', path);
const run = promisify(execFile);

export interface Consumer extends AsyncDisposable {
  readonly folder: string;
  /** The complaints of the TypeScript compiler. Empty if there are none. */
  typeErrors(...flags: string[]): Promise<string>;
  /** Bundles a Worker of the page as wrangler does, and runs it, with the date of wrangler.toml or with this one. */
  start(bindings: Record<string, string>, worker: PageWorker): Promise<Miniflare>;
}

export interface PageWorker {
  readonly main: 'index' | 'worker';
  readonly compatibilityDate?: string | undefined;
}

export const runNpm = (folder: string, ...args: string[]) => run('npm', args, { cwd: folder });

/** Packs Weir into this folder, as `npm publish` would. */
export async function pack(folder: string) {
  const { stdout } = await runNpm(ROOT, 'pack', '--json', '--pack-destination', folder);
  const [packed] = Object.values(JSON.parse(stdout.slice(stdout.search(/^[[{]/m))) as object) as Packed[];
  if (!packed) throw new Error('npm packed nothing');
  return { ...packed, path: join(folder, packed.filename) };
}

export interface Packed {
  readonly filename: string;
  readonly size: number;
  readonly files: readonly { readonly path: string }[];
}

/** Inside `parent`, whose packages it can import. */
export async function createConsumer(parent = tmpdir()): Promise<Consumer> {
  await mkdir(parent, { recursive: true });
  const folder = await mkdtemp(join(parent, 'consumer-'));
  await writeFile(join(folder, 'package.json'), '{ "name": "my-api", "private": true, "type": "module" }');
  for (const { path, text } of await filesOfTheDocs()) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  return {
    folder,
    typeErrors: (...flags) => typeErrors(folder, flags),
    start: (bindings, worker) => start(folder, bindings, worker),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

const BLOCK = /^```(?:ts|js|toml) (\S+)\n([\s\S]*?)^```$/gm;

async function filesOfTheDocs() {
  const page = await readFile(join(ROOT, 'docs/library.md'), 'utf8');
  return [...page.matchAll(BLOCK)].map(([, path = '', text = '']) => ({ path, text }));
}

async function typeErrors(folder: string, flags: readonly string[]): Promise<string> {
  const files = (await filesOfTheDocs()).map(({ path }) => path).filter((path) => path.endsWith('.ts'));
  const args = [
    bin('typescript/bin/tsc'),
    '--noEmit',
    '--singleThreaded',
    '--ignoreConfig',
    '--strict',
    '--target',
    'es2022',
    ...flags,
    ...files,
  ];
  return run(process.execPath, args, { cwd: folder }).then(
    () => '',
    (error: { stdout: string }) => error.stdout,
  );
}

async function start(
  folder: string,
  bindings: Record<string, string>,
  { main, compatibilityDate: date }: PageWorker,
): Promise<Miniflare> {
  const config = await readFile(join(folder, 'wrangler.toml'), 'utf8');
  const compatibilityDate = date ?? /^compatibility_date = "([\d-]+)"$/m.exec(config)?.[1] ?? '';
  const out = join(folder, 'out');
  const args = [bin('wrangler/bin/wrangler.js'), 'deploy', `src/${main}.ts`, '--dry-run', '--outdir', out];
  const env = { ...process.env, WRANGLER_SEND_METRICS: 'false', NO_COLOR: '1' };
  await run(process.execPath, args, { cwd: folder, env });
  const workers = [
    {
      name: 'my-api',
      modules: [{ type: 'ESModule' as const, path: join(out, `${main}.js`) }],
      rootPath: out,
      compatibilityDate,
      bindings,
    },
  ];
  const miniflare = new Miniflare(convertV4MiniflareOptions({ workers }));
  await miniflare.ready;
  return miniflare;
}
