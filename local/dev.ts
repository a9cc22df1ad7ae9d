// `npm run dev`: Weir and everything around it on this machine, then a short guide. Ctrl-C ends it all.
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { guide } from './guide.ts';
import { StackError } from './ports.ts';
import type { LuaEngine } from './script-server.ts';
import { assertPortsFree, parseSettings, type Settings } from './settings.ts';
import type { Stack } from './stack.ts';
import type { LocalWorker } from './worker.ts';

const HELP = `npm run dev [-- --fresh] [--upstash-lua]

  --fresh        start over, with nothing but the demo set
  --upstash-lua  run the scripts on gopher-lua, as Upstash does, and not on the Lua of Redis. Needs Go and
                 gopher-lua: both are installed with apt-get, or set GOPHER_LUA_SRC to a source of gopher-lua
  --help         this text

Variables: PORT (8787), ORIGIN_URL, DATABASE_URL, ADMIN_TOKEN, DEADLINE_MS (1000), WEIR_DATA_DIR (.weir),
what the Worker is given as it is (ISOLATE_CAP, ISOLATES, DEGRADED_HEADER, ADMIN_TOKENS, ADMIN_ACCESS, JWT,
JWT_SECRET, UNVERIFIED, IPV6_PREFIX, COST_HEADER, ORIGIN_RATE_LIMIT_HEADERS, OVERRIDE_HEADERS, ORIGIN_TIMEOUT_MS,
TELEMETRY_SECONDS, EVENTS_DAYS, USAGE_DAYS, SUBJECTS, SUBJECTS_KEY, OTLP_URL:
see src/bindings.ts),
ORIGIN_PORT (8788), UPSTASH_PORT (8790 and the two after it), NEON_PORT (8795), POSTGRES_PORT (5488),
REDIS_PORT (6390 and the two after it). A port of 0 means any free one.`;

const CRON_INTERVAL_MS = 60_000;

async function main(): Promise<void> {
  const flag = { type: 'boolean' } as const;
  const { values } = parseArgs({ options: { fresh: flag, 'upstash-lua': flag, help: flag } });
  if (values.help) return console.log(HELP);
  const settings = parseSettings(process.env);
  await assertPortsFree(settings);
  const signal = abortOnInterrupt();
  // However this block is left, `cleanup` ends every process that was started in it.
  await using cleanup = new AsyncDisposableStack();
  try {
    const lua = values['upstash-lua'] ? 'gopher' : 'redis';
    const worker = await start(settings, { fresh: values.fresh === true, lua, signal, cleanup });
    await Promise.race([aborted(signal), worker.ended]);
    if (!signal.aborted) throw new StackError('wrangler dev ended by itself');
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

interface StartOptions {
  readonly fresh: boolean;
  readonly lua: LuaEngine;
  readonly signal: AbortSignal;
  readonly cleanup: AsyncDisposableStack;
}

async function start(settings: Settings, options: StartOptions): Promise<LocalWorker> {
  const { fresh, lua, signal, cleanup } = options;
  await mkdir(settings.dataDir, { recursive: true }).catch((error: Error) => {
    throw new StackError(`WEIR_DATA_DIR cannot be used: ${error.message}`);
  });
  // Only now: they take a while to load, and what is wrong with the settings is said at once.
  const [{ startStack }, { startWorker }, { demoKeys }] = await Promise.all([
    import('./stack.ts'),
    import('./worker.ts'),
    import('./demo-set.ts'),
  ]);
  const stack = cleanup.use(await startStack({ ...settings, fresh, lua, say, signal }));
  // Whoever brings a database brings the rules: demo rules in a real one would be enforced.
  const hasDemo = !settings.databaseUrl && (await seedOrExplain(stack.databaseUrl));
  if (fresh) await rm(join(settings.dataDir, 'worker'), { recursive: true, force: true });
  // Before the Worker takes requests: without rules it would let all of them pass.
  await announceRules(stack);

  say('starting the Worker (wrangler dev)');
  let isUp = false;
  const worker = await startWorker({
    port: settings.ports.worker,
    dataDir: settings.dataDir,
    variables: {
      ...stack.variables,
      ...settings.worker,
      ADMIN_TOKEN: settings.adminToken,
      DEADLINE_MS: settings.deadlineMs,
    },
    // Until it is up, what wrangler says matters only if it fails, and then it is part of the error.
    onOutput: (line) => isUp && console.log(`  worker │ ${line}`),
    signal,
  });
  isUp = true;
  cleanup.defer(() => worker.stop());
  const cron = setInterval(() => runCron(worker.url), CRON_INTERVAL_MS);
  cleanup.defer(() => clearInterval(cron));
  await publish(worker.url, settings.adminToken);
  const keys = hasDemo ? await demoKeys() : [];
  console.log(guide({ workerUrl: worker.url, adminToken: settings.adminToken, stack, keys }));
  return worker;
}

/** Whether the demo set is there. */
async function seedOrExplain(databaseUrl: string): Promise<boolean> {
  const { seedDemoSet } = await import('./demo-set.ts');
  return seedDemoSet(databaseUrl).catch((error: Error) => {
    throw new StackError(
      `the database is not as the migrations left it (${error.message.split('\n')[0]}); try --fresh`,
    );
  });
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

/** wrangler dev knows the cron trigger but leaves it to others to pull it. */
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
