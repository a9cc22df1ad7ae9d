// `npm run dev`: Weir and everything around it on this machine, then a short guide. Ctrl-C ends it all.
import { randomBytes } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { guide } from './guide.ts';
import { StackError } from './ports.ts';
import type { LocalRegion } from './regions.ts';
import type { LuaEngine } from './script-server.ts';
import { assertPortsFree, parseSettings, type Settings } from './settings.ts';
import type { Stack } from './stack.ts';
import type { LocalWorker } from './worker.ts';

const HELP = `npm run dev [-- --fresh] [--demo] [--upstash-lua] [--cluster]

  --fresh        start over: all data go, the admin token included
  --demo         with ORIGIN_URL: put the demo rules in front of your own API, too
  --upstash-lua  run the scripts on gopher-lua, as Upstash does, and not on the Lua of Redis. Needs Go and
                 gopher-lua: both are installed with apt-get, or set GOPHER_LUA_SRC to a source of gopher-lua
  --cluster      the first region is a Redis Cluster of three masters and three replicas
  --help         this text

Variables: PORT (8787), ORIGIN_URL (then there are no demo rules), DATABASE_URL, DEADLINE_MS (1000),
ADMIN_TOKEN (else one is made, and kept with the data), WEIR_DATA_DIR (.weir), ORIGIN_PORT (8788), UPSTASH_PORT (8790 and the two after it), NEON_PORT (8795), POSTGRES_PORT (5488),
REDIS_PORT (6390 and the two after it). A port of 0 means any free one.
The Worker also gets every other variable of docs/operations.md, such as ENFORCEMENT or JWT.`;

const CRON_INTERVAL_MS = 60_000;
const REDIS_CHECK_MS = 500;
/** The Worker refuses shorter tokens. */
const SHORTEST_TOKEN = 16;

async function main(): Promise<void> {
  const flag = { type: 'boolean' } as const;
  const options = { fresh: flag, demo: flag, 'upstash-lua': flag, cluster: flag, help: flag };
  const { values } = parseArgs({ options });
  if (values.help) return console.log(HELP);
  const settings = parseSettings(process.env);
  await assertPortsFree(settings);
  const signal = abortOnInterrupt();
  // `cleanup` ends every process that this block started, however the block ends.
  await using cleanup = new AsyncDisposableStack();
  try {
    const lua = values['upstash-lua'] ? 'gopher' : 'redis';
    const { fresh = false, demo = false, cluster = false } = values;
    const worker = await start(settings, { fresh, demo, lua, cluster, signal, cleanup });
    await Promise.race([aborted(signal), worker.ended]);
    if (!signal.aborted) throw new StackError('wrangler dev ended by itself');
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

interface StartOptions {
  readonly fresh: boolean;
  /** Adds demo rules, even in front of a person's own API. */
  readonly demo: boolean;
  readonly lua: LuaEngine;
  readonly cluster: boolean;
  readonly signal: AbortSignal;
  readonly cleanup: AsyncDisposableStack;
}

async function start(settings: Settings, options: StartOptions): Promise<LocalWorker> {
  const { fresh, demo, lua, cluster, signal, cleanup } = options;
  await mkdir(settings.dataDir, { recursive: true }).catch((error: Error) => {
    throw new StackError(`WEIR_DATA_DIR cannot be used: ${error.message}`);
  });
  // Imported late: these modules take a while to load, and errors in the settings should show at once.
  const [{ startStack }, { startWorker }, { demoKeys }] = await Promise.all([
    import('./stack.ts'),
    import('./worker.ts'),
    import('./demo-keys.ts'),
  ]);
  const stack = cleanup.use(await startStack({ ...settings, fresh, lua, cluster, say, signal }));
  cleanup.defer(keepAlive(stack.regions));
  // A person's own database has its own rules, and demo rules must not limit a person's own API.
  const wantsDemo = !settings.databaseUrl && (demo || !settings.originUrl);
  const hasDemo = wantsDemo && (await seedOrExplain(stack.databaseUrl));
  if (!settings.databaseUrl && !wantsDemo) await removeDemo(stack.databaseUrl);
  if (fresh) await rm(join(settings.dataDir, 'worker'), { recursive: true, force: true });
  // Announces the rules before the Worker takes requests: without rules it would let all of them pass.
  await announceRules(stack);
  const adminToken = settings.adminToken ?? (await keptToken(settings.dataDir, { fresh }));

  say('starting the Worker (wrangler dev)');
  let isUp = false;
  const worker = await startWorker({
    port: settings.ports.worker,
    dataDir: settings.dataDir,
    variables: {
      ...stack.variables,
      // A person is watching, so the page should show counts that are two seconds old.
      TELEMETRY_SECONDS: '2',
      ...settings.worker,
      ADMIN_TOKEN: adminToken,
      DEADLINE_MS: settings.deadlineMs,
    },
    // Before the Worker is up, its output matters only if it fails, and then the error contains it.
    onOutput: (line) => isUp && console.log(`  worker │ ${line}`),
    signal,
  });
  isUp = true;
  cleanup.defer(() => worker.stop());
  const cron = setInterval(() => runCron(worker.url), CRON_INTERVAL_MS);
  cleanup.defer(() => clearInterval(cron));
  await publish(worker.url, adminToken);
  const keys = hasDemo ? await demoKeys() : [];
  console.log(guide({ workerUrl: worker.url, adminToken, stack, keys }));
  return worker;
}

/** Uses the token of the last run again, so that programs with that token keep working. Else makes a new one. */
async function keptToken(dataDir: string, { fresh }: { readonly fresh: boolean }): Promise<string> {
  const file = join(dataDir, 'admin-token');
  const kept = fresh ? '' : (await readFile(file, 'utf8').catch(() => '')).trim();
  if (kept.length >= SHORTEST_TOKEN) return kept;
  const token = randomBytes(24).toString('base64url');
  await writeFile(file, `${token}\n`, { mode: 0o600 });
  return token;
}

/** If a Redis ends by itself, says so and starts it again, empty. Returns a function that ends the watch. */
function keepAlive(regions: readonly LocalRegion[]): () => void {
  const starting = new Set<string>();
  const revive = async ({ name, redis }: LocalRegion) => {
    if (redis.isRunning() || starting.has(name)) return;
    starting.add(name);
    say(`Redis ${name} has ended: starting it again, empty`);
    await redis.start().catch((error: Error) => say(`Redis ${name} does not start: ${error.message}`));
    starting.delete(name);
  };
  // In a cluster, the replicas take over by themselves.
  const single = regions.filter(({ cluster }) => !cluster);
  const watch = setInterval(() => single.forEach((region) => void revive(region)), REDIS_CHECK_MS);
  return () => clearInterval(watch);
}

/** Resolves to whether the demo set is there. */
async function seedOrExplain(databaseUrl: string): Promise<boolean> {
  const { seedDemoSet } = await import('./demo-set.ts');
  return seedDemoSet(databaseUrl).catch((error: Error) => {
    throw new StackError(
      `the database is not as the migrations left it (${error.message.split('\n')[0]}); try --fresh`,
    );
  });
}

/** A plain `npm run dev` may have left the demo set in the data. */
async function removeDemo(databaseUrl: string): Promise<void> {
  const { removeDemoSet } = await import('./demo-set.ts');
  const { removed, kept } = await removeDemoSet(databaseUrl);
  if (removed > 0)
    say(`removed ${removed} demo rules, routes and keys, because ORIGIN_URL names your own API`);
  if (kept.length > 0) say(`kept what you have changed: ${kept.join(', ')}`);
}

async function announceRules(stack: Stack): Promise<void> {
  await import('./lua-text.ts');
  const { publishToRegions } = await import('./first-publication.ts');
  await publishToRegions(stack);
}

async function publish(workerUrl: string, adminToken: string): Promise<void> {
  const answer = await fetch(`${workerUrl}/_weir/admin/publish`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${adminToken}` },
  });
  if (!answer.ok) throw new StackError(`the rules could not be published: ${await answer.text()}`);
}

/** wrangler dev knows the cron trigger, but does not run it by itself. */
function runCron(workerUrl: string): void {
  fetch(`${workerUrl}/cdn-cgi/local/scheduled`).catch(() => console.error('weir: the cron run failed'));
}

/** The first Ctrl-C stops in order; a second one stops at once. */
function abortOnInterrupt(): AbortSignal {
  const controller = new AbortController();
  const interrupt = () => {
    if (controller.signal.aborted) process.exit(130);
    say('stopping');
    controller.abort(new StackError('stopped'));
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, interrupt);
  return controller.signal;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

function say(line: string): void {
  console.log(`weir: ${line}`);
}

try {
  await main();
  process.exit(0);
} catch (error) {
  const known =
    error instanceof StackError || (error as NodeJS.ErrnoException).code?.startsWith('ERR_PARSE_ARGS');
  console.error(known ? `weir: ${(error as Error).message}` : error);
  process.exit(1);
}
