// Isolates of Weir in one workerd, each with a switch for its telemetry. Only this build has the switch.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { readCompatibility } from '../../local/isolates.ts';
import { startStack } from '../../local/stack.ts';
import { WORKER_BUILD } from '../../local/worker-build.ts';
import { ANY_PORTS, bundleOthers, putRulesInForce, weirModulesIn, weirOn } from '../gateway/arena.ts';
import { RULES } from '../gateway/limits.ts';
import { serveWorkers } from '../gateway/workerd.ts';
import type { BenchOptions } from '../shared/bench.ts';

export interface SwitchedIsolates extends AsyncDisposable {
  /** The process id of workerd. */
  readonly pid: number;
  readonly urls: readonly string[];
  /** The inspector of the first isolate. */
  readonly inspectorUrl: string;
  /** Where the modules are. */
  readonly folder: string;
}

const nameOf = (place: number) => `weir-${place}`;
const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));

export async function startSwitchedIsolates(
  count: number,
  { say, parts }: BenchOptions,
): Promise<SwitchedIsolates> {
  await using cleanup = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'weir-telemetry-bench-'));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  say('building Weir with a switch');
  await buildSwitched(join(folder, 'weir'));
  await bundleOthers(folder, ['kv']);
  const stack = cleanup.use(await startStack({ ports: ANY_PORTS, databaseUrl: parts.databaseUrl, say }));
  const modules = await weirModulesIn(folder);
  const names = Array.from({ length: count }, (_, place) => nameOf(place));
  const workers = [
    { name: 'kv', modules: [{ name: 'index.js', type: 'esModule', path: 'worker-kv.js' }], variables: {} },
    ...names.map((name) => weirOn(stack, modules, { name, kv: 'kv' })),
  ] as const;
  const compatibility = await readCompatibility();
  const { pid, urls, inspectors } = cleanup.use(
    await serveWorkers({ folder, compatibility, workers, inspect: true }),
  );
  await putRulesInForce(urls[nameOf(0)] ?? '', RULES);
  const owned = cleanup.move();
  return {
    pid,
    urls: names.map((name) => urls[name] ?? ''),
    inspectorUrl: inspectors[nameOf(0)] ?? '',
    folder: join(folder, 'weir'),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Replaces two imports of the wiring with versions that can be turned off. */
const switched: Plugin = {
  name: 'switched-telemetry',
  setup({ onResolve }) {
    onResolve({ filter: /\/telemetry\/(telemetry|region-observer)\.ts$/ }, ({ path, importer }) =>
      /\/src\/wiring\/(core|deployment)\.ts$/.test(importer)
        ? { path: here(`./switched-${path.replace(/^.*\//, '')}`) }
        : undefined,
    );
  },
};

async function buildSwitched(outdir: string): Promise<void> {
  const entryPoints = { index: here('./worker.ts') };
  // Not minified, so that a profile shows where the code is.
  const settings = { ...WORKER_BUILD, minify: false, logLevel: 'error' } as const;
  await build({ ...settings, entryPoints, outdir, plugins: [switched] });
}
