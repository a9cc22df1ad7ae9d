// The package as npm packs it: its contents, whether tools and compilers understand it, and whether it limits requests.
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startRegions } from '../../local/regions.ts';
import { isLong } from '../rounds.ts';
import { type Consumer, createConsumer, type Packed, pack, ROOT, runNpm } from './consumer.ts';
import { startRegistry } from './registry.ts';
import { untilDenied } from './until-denied.ts';

const run = promisify(execFile);
/** The most that an upload to a registry may weigh. */
const MAX_PACKED_BYTES = 295_000;

let folder: string;
let packed: Packed & { readonly path: string };
let consumer: Consumer;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weir-pack-'));
  packed = await pack(folder);
  // Inside the project, so that it finds the project's dependencies without a registry.
  consumer = await createConsumer(join(ROOT, '.weir'));
  const installed = join(consumer.folder, 'node_modules/weir');
  await mkdir(installed, { recursive: true });
  await run('tar', ['-xzf', packed.path, '--strip-components=1', '-C', installed]);
});
afterAll(async () => {
  await consumer?.[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

const manifest = async () => JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));

describe('the package', () => {
  it('holds code, types, migrations and the licence, and nothing else', () => {
    const kinds = new Set(
      packed.files.map(({ path }) => path.replace(/^(lib|drizzle)\/.*?(\.d\.ts|\.\w+)$/, '$1 $2')),
    );
    expect([...kinds].sort()).toEqual([
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'bin/weir.js',
      'drizzle .json',
      'drizzle .sql',
      'lib .d.ts',
      'lib .js',
      'package.json',
    ]);
    expect(packed.size).toBeLessThanOrEqual(MAX_PACKED_BYTES);
  });

  it('has nothing that publint complains about', async () => {
    const { messages, pkg } = await publint({
      pkgDir: join(consumer.folder, 'node_modules/weir'),
      strict: true,
    });
    expect(messages.map((message) => formatMessage(message, pkg))).toEqual([]);
  });

  it('has types that every module resolution finds', async () => {
    const attw = join(ROOT, 'node_modules/@arethetypeswrong/cli/dist/index.js');
    const args = [attw, packed.path, '--profile', 'esm-only', '--format', 'json'];
    const { stdout } = await run(process.execPath, args);
    const { analysis } = JSON.parse(stdout) as { analysis: { types: unknown } };
    expect(analysis.types).toMatchObject({ kind: 'included' });
  });

  it('imports only packages that it depends on', async () => {
    const { dependencies, peerDependencies } = await manifest();
    const known = Object.keys({ ...dependencies, ...peerDependencies });
    const lib = join(consumer.folder, 'node_modules/weir/lib');
    const files = (await readdir(lib, { recursive: true })).filter((file) => /\.(js|d\.ts)$/.test(file));
    const texts = await Promise.all(files.map((file) => readFile(join(lib, file), 'utf8')));
    const imported = texts.flatMap((text) => [...text.matchAll(IMPORTED)].map(([, name]) => name));
    expect([...new Set(imported)].filter((name) => !known.includes(name ?? ''))).toEqual([]);
  });

  it.each([
    ['bundler', '--module', 'esnext', '--moduleResolution', 'bundler'],
    ['nodenext', '--module', 'nodenext'],
  ])('compiles in a project with %s resolution, even if its own types are checked', async (_, ...flags) => {
    expect(await consumer.typeErrors(...flags, '--lib', 'es2022,dom', '--types', '')).toBe('');
  });

  it('limits an empty Hono Worker, as docs/library.md says', () => expectFirstDenial(consumer));

  // Older runtimes refuse these while a module is loaded. The runtime of this project refuses fewer of them.
  it.each(['hono', 'client'])('makes no signal, timer or request while weir/%s is loaded', async (entry) => {
    const script = `
      const refuse = () => { throw new Error('while a module was loaded'); };
      for (const name of ['fetch', 'setTimeout', 'setInterval']) globalThis[name] = refuse;
      for (const name of ['abort', 'any', 'timeout']) AbortSignal[name] = refuse;
      globalThis.AbortController = class { constructor() { refuse(); } };
      await import('weir/${entry}');`;
    await run(process.execPath, ['--input-type=module', '-e', script], { cwd: consumer.folder });
  });

  it('limits a Worker with the oldest compatibility date that docs/library.md names', async () => {
    const page = await readFile(join(ROOT, 'docs/library.md'), 'utf8');
    const [, oldest] = /`compatibility_date` from ([\d-]+) on/.exec(page) ?? [];
    expect(oldest).toMatch(/^\d{4}-/);
    await expectFirstDenial(consumer, oldest);
  });

  // Takes a minute, and asks a registry for all packages that Weir depends on.
  if (isLong)
    it('can be published and installed into an empty Hono Worker, and limits it', async () => {
      await using registry = await startRegistry();
      const at = ['--registry', registry.url];
      const token = `--${registry.url.slice('http:'.length)}:_authToken=anybody`;
      await runNpm(folder, 'publish', packed.path, ...at, token);
      await using empty = await createConsumer();
      const startedAtMs = performance.now();
      await runNpm(empty.folder, 'install', 'weir', 'hono', '--no-audit', '--no-fund', ...at);
      await expectFirstDenial(empty);
      console.log(`from npm i to the first 429: ${((performance.now() - startedAtMs) / 1000).toFixed(1)} s`);
      expect(await empty.typeErrors('--module', 'nodenext', '--lib', 'es2022,dom', '--types', '')).toBe('');
    });
});

async function expectFirstDenial(project: Consumer, compatibilityDate?: string): Promise<void> {
  await using cleanup = new AsyncDisposableStack();
  const [region] = await startRegions({ redisPort: 0, upstashPort: 0 }, cleanup);
  const bindings = { REDIS_URL: region?.gateway.url ?? '', REDIS_TOKEN: region?.gateway.token ?? '' };
  const variables = { ...bindings, DEADLINE_MS: '5000', PLAIN_HTTP: 'allow' };
  const miniflare = await project.start(variables, compatibilityDate);
  cleanup.defer(() => miniflare.dispose());
  const { passed, denied } = await untilDenied(miniflare);
  expect(passed).toBe(5);
  expect(denied.headers.get('RateLimit-Policy')).toBe('"hello-ip";q=5;w=60, "all-ip";q=100;w=60');
  expect(await denied.json()).toMatchObject({ code: 'rate-limited', policy: 'hello-ip' });
}

/** The package of an import, with its scope and without the path inside it. */
const IMPORTED = /(?:from |import\(|import )"((?:@[\w.-]+\/)?[\w-][\w.-]*)(?:\/[\w./-]*)?"/g;
