// The package as npm packs it: its contents, whether tools and compilers understand it, and whether it limits requests.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { isBuiltin } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../local/ports.ts';
import { startRegions } from '../../local/regions.ts';
import { isLong } from '../rounds.ts';
import {
  type Consumer,
  createConsumer,
  type Packed,
  type PageWorker,
  pack,
  ROOT,
  runNpm,
} from './consumer.ts';
import { startRegistry } from './registry.ts';
import { type Answer, untilDenied } from './until-denied.ts';

const run = promisify(execFile);
/** The most that an upload to a registry may weigh. */
const MAX_PACKED_BYTES = 350_000;

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

  it('imports only packages that it depends on, and calls nothing that Node 20 does not have', async () => {
    const { dependencies, peerDependencies } = await manifest();
    const known = Object.keys({ ...dependencies, ...peerDependencies });
    const lib = join(consumer.folder, 'node_modules/weir/lib');
    const files = (await readdir(lib, { recursive: true })).filter((file) => /\.(js|d\.ts)$/.test(file));
    const texts = await Promise.all(files.map((file) => readFile(join(lib, file), 'utf8')));
    const imported = texts.flatMap((text) => [...text.matchAll(IMPORTED)].map(([, name]) => name));
    expect([...new Set(imported)].filter((name = '') => !known.includes(name) && !isBuiltin(name))).toEqual(
      [],
    );
    expect(texts.flatMap((text) => text.match(NOT_IN_NODE_20) ?? [])).toEqual([]);
  });

  it.each([
    ['bundler', '--module', 'esnext', '--moduleResolution', 'bundler'],
    ['nodenext', '--module', 'nodenext'],
  ])('compiles in a project with %s resolution, even if its own types are checked', async (_, ...flags) => {
    expect(await consumer.typeErrors(...flags, '--lib', 'es2022,dom', '--types', '')).toBe('');
  });

  it('has types that fit those of node:http, of Express’ kind too', async () => {
    const file = join(consumer.folder, 'src/node.ts');
    await writeFile(file, WITH_NODE_TYPES);
    try {
      expect(
        await consumer.typeErrors('--module', 'nodenext', '--lib', 'es2022', '--types', 'node', file),
      ).toBe('');
    } finally {
      await rm(file);
    }
  });

  it.each(WORKERS)('limits an empty $name, as docs/library.md says', ({ main }) =>
    expectFirstDenial(byWorker(consumer, { main })),
  );

  it('limits a server of Node, as docs/library.md says, with what Node 20 has', () =>
    expectFirstDenial(byNode(consumer, [process.execPath, '--import', WITHOUT_NODE_22])));

  it('checks, refunds and reads tokens on Node 20', async () => {
    await using cleanup = new AsyncDisposableStack();
    const tokens = [{ name: 'jobs', token: 'a-token-that-may-check', role: 'check' }];
    const start = byNode(consumer, [process.execPath, '--import', WITHOUT_NODE_22]);
    const ask = await start(
      {
        ...(await startRedis(cleanup)),
        ADMIN_TOKENS: JSON.stringify(tokens),
        JWT: '{ "algorithms": ["HS256"] }',
        JWT_SECRET: 'a-secret-of-at-least-thirty-two-bytes',
      },
      cleanup,
    );
    const post = (path: string, body: object) =>
      ask(`/_weir/check${path}`, {
        method: 'POST',
        headers: { Authorization: 'Bearer a-token-that-may-check' },
        body: JSON.stringify(body),
      });
    const [one, other] = ['10.1.2.3', '10.1.2.4'].map((subject) => ({ policy: 'hello-ip', subject }));
    const { id } = JSON.parse(await (await post('', { checks: [one, other] })).text());
    expect((await post('/refund', { id })).status).toBe(204);
    const unverified = await ask('/hello', { headers: { Authorization: 'Bearer a.b.c' } });
    expect(unverified.status).toBe(200);
    // With an error, the request would have gone on uncounted.
    expect(unverified.headers.get('X-RateLimit-Remaining')).toBe('4');
  });

  // Older runtimes refuse these while a module is loaded. The runtime of this project refuses fewer of them.
  it.each(['hono', 'fetch', 'client'])(
    'makes no signal, timer or request while weir/%s is loaded',
    async (entry) => {
      const script = `
      const refuse = () => { throw new Error('while a module was loaded'); };
      for (const name of ['fetch', 'setTimeout', 'setInterval']) globalThis[name] = refuse;
      for (const name of ['abort', 'any', 'timeout']) AbortSignal[name] = refuse;
      globalThis.AbortController = class { constructor() { refuse(); } };
      await import('weir/${entry}');`;
      await run(process.execPath, ['--input-type=module', '-e', script], { cwd: consumer.folder });
    },
  );

  it.each(WORKERS)(
    'limits a $name with the oldest compatibility date that docs/library.md names',
    async ({ main }) => {
      const page = await readFile(join(ROOT, 'docs/library.md'), 'utf8');
      const [, oldest] = /`compatibility_date` from ([\d-]+) on/.exec(page) ?? [];
      expect(oldest).toMatch(/^\d{4}-/);
      await expectFirstDenial(byWorker(consumer, { main, compatibilityDate: oldest }));
    },
  );

  // Takes minutes, and asks a registry for all packages that Weir depends on.
  if (isLong)
    describe('from a registry', () => {
      let registry: Awaited<ReturnType<typeof startRegistry>>;
      beforeAll(async () => {
        registry = await startRegistry();
        const token = `--${registry.url.slice('http:'.length)}:_authToken=anybody`;
        await runNpm(folder, 'publish', packed.path, '--registry', registry.url, token);
      });
      afterAll(() => registry?.[Symbol.asyncDispose]());

      it.each([
        ['Hono Worker', ['hono'], (empty: Consumer) => byWorker(empty, { main: 'index' })],
        ['Worker without Hono', [], (empty: Consumer) => byWorker(empty, { main: 'worker' })],
        ['server of Node 20', ['node@20'], (empty: Consumer) => byNode(empty, ['node_modules/.bin/node'])],
      ] as const)('can be installed into an empty folder, and limits a %s', async (name, besides, open) => {
        await using empty = await createConsumer();
        const startedAtMs = performance.now();
        const asked = ['weir', ...besides, '--no-audit', '--no-fund', '--registry', registry.url];
        await runNpm(empty.folder, 'install', ...asked);
        await expectFirstDenial(open(empty));
        const tookMs = performance.now() - startedAtMs;
        console.log(`from npm i to the first 429 of a ${name}: ${(tookMs / 1000).toFixed(1)} s`);
        expect(tookMs).toBeLessThan(120_000);
        expect(await empty.typeErrors('--module', 'nodenext', '--lib', 'es2022,dom', '--types', '')).toBe('');
      });
    });
});

/** Starts an app of the page with these variables. */
type Start = (variables: Record<string, string>, cleanup: AsyncDisposableStack) => Promise<Ask>;
type Ask = (path: string, init?: RequestInit) => Promise<Answer>;

async function expectFirstDenial(start: Start): Promise<void> {
  await using cleanup = new AsyncDisposableStack();
  const ask = await start(await startRedis(cleanup), cleanup);
  const { passed, denied } = await untilDenied(() => ask('/hello'));
  expect(passed).toBe(5);
  expect(denied.headers.get('RateLimit-Policy')).toBe('"hello-ip";q=5;w=60, "all-ip";q=100;w=60');
  expect(JSON.parse(await denied.text())).toMatchObject({ code: 'rate-limited', policy: 'hello-ip' });
}

async function startRedis(cleanup: AsyncDisposableStack) {
  const [region] = await startRegions({ redisPort: 0, upstashPort: 0 }, cleanup);
  const { url = '', token = '' } = region?.gateway ?? {};
  return { REDIS_URL: url, REDIS_TOKEN: token, DEADLINE_MS: '5000', PLAIN_HTTP: 'allow' };
}

const byWorker =
  (project: Consumer, worker: PageWorker): Start =>
  async (variables, cleanup) => {
    const miniflare = await project.start(variables, worker);
    cleanup.defer(() => miniflare.dispose());
    const headers = { 'CF-Connecting-IP': '10.1.2.3' };
    return (path) => miniflare.dispatchFetch(`http://mine.test${path}`, { headers });
  };

const byNode =
  (project: Consumer, [program, ...flags]: readonly [string, ...string[]]): Start =>
  async (variables, cleanup) => {
    const port = String(await freePort());
    const server = spawn(program, [...flags, 'src/server.mjs'], {
      cwd: project.folder,
      env: { ...process.env, ...variables, PORT: port },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const ended = once(server, 'exit');
    cleanup.defer(async () => {
      server.kill('SIGKILL');
      await ended;
    });
    const url = `http://localhost:${port}`;
    await expect
      .poll(() =>
        fetch(`${url}/_weir/health`).then(
          ({ status }) => status,
          () => 0,
        ),
      )
      .toBe(200);
    return (path, init) => fetch(url + path, init);
  };

const WORKERS = [
  { name: 'Hono Worker', main: 'index' },
  { name: 'Worker without Hono', main: 'worker' },
] as const;

const WITHOUT_NODE_22 = join(ROOT, 'test/package/without-node-22.ts');

/** Express adds fields to the request that middleware gets, and passes an error to `next`. */
const WITH_NODE_TYPES = `
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createWeir } from 'weir/fetch';

const weir = createWeir({ regions: [], rules: [] });
createServer((request, response) => weir.node()(request, response, () => response.end()));
weir.node({ env: { DEADLINE_MS: '300' } });
weir.checks(process.env).refund('');

interface ExpressRequest extends IncomingMessage { originalUrl: string; user?: { id: number } }
interface ExpressResponse extends ServerResponse { locals: object }
type Handler = (request: ExpressRequest, response: ExpressResponse, next: (error?: unknown) => void) => unknown;
export const handler: Handler = weir.node<ExpressRequest>({
  address: 'X-Forwarded-For',
  caller: ({ user }) => user && { userId: user.id },
});
`;

const NOT_IN_NODE_20 =
  /\b(?:Map\.groupBy|Object\.groupBy|Promise\.withResolvers|Promise\.try|Array\.fromAsync|URL\.parse|RegExp\.escape|Error\.isError)\(/g;

/** The package of an import, with its scope and without the path inside it. */
const IMPORTED = /(?:from |import\(|import )"((?:@[\w.-]+\/)?[\w-][\w.-]*)(?:\/[\w./-]*)?"/g;
