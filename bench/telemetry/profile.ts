// Samples an isolate under load with V8: the fraction of samples that are in telemetry. Other work on the machine slows
// all code of the isolate alike, so this figure is steadier than a difference of processor times.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connectInspector } from '../gateway/inspector.ts';

interface ProfileNode {
  readonly id: number;
  readonly callFrame: {
    readonly functionName: string;
    readonly url: string;
    /** Counts from 0. */
    readonly lineNumber: number;
  };
  readonly children?: readonly number[];
}

interface Profile {
  /** The root comes first. */
  readonly nodes: readonly ProfileNode[];
  readonly samples: readonly number[];
  /** Microseconds since the previous sample. */
  readonly timeDeltas: readonly number[];
}

export interface ProfileOptions {
  readonly inspectorUrl: string;
  /** Holds the modules, not minified. */
  readonly folder: string;
  readonly work: () => Promise<void>;
}

const SAMPLE_MICROS = 200;
const TELEMETRY = /^src\/(core\/)?telemetry\//;
/** This file calls the store that it observes. Only its own work is telemetry. */
const PASSES_ON = 'src/telemetry/region-observer.ts';

export async function profileShare({ inspectorUrl, folder, work }: ProfileOptions): Promise<number> {
  using inspector = await connectInspector(inspectorUrl);
  await inspector.call('Profiler.enable');
  await inspector.call('Profiler.setSamplingInterval', { interval: SAMPLE_MICROS });
  await inspector.call('Profiler.start');
  await work();
  const { profile } = await inspector.call<{ profile: Profile }>('Profiler.stop');
  return shareOf(profile, await readModules(profile, folder));
}

type Modules = ReadonlyMap<string, readonly string[]>;

/** By file and line: the source file, which esbuild names in a comment above its code. */
async function readModules({ nodes }: Profile, folder: string): Promise<Modules> {
  const files = new Set(nodes.map(({ callFrame }) => callFrame.url).filter((url) => url.endsWith('.js')));
  const read = async (file: string) => {
    let source = '';
    const lines = (await readFile(join(folder, file), 'utf8')).split('\n');
    return lines.map((line) => (source = /^\/\/ ([\w@./-]+\.\w+)$/.exec(line)?.[1] ?? source));
  };
  return new Map(await Promise.all([...files].map(async (file) => [file, await read(file)] as const)));
}

function shareOf({ nodes, samples, timeDeltas }: Profile, modules: Modules): number {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const inTelemetry = new Set<number>();
  const mark = (id: number, isInside: boolean): void => {
    const { callFrame, children = [] } = byId.get(id) ?? {};
    const source = modules.get(callFrame?.url ?? '')?.[callFrame?.lineNumber ?? 0] ?? '';
    const isHere = isInside || TELEMETRY.test(source);
    if (isHere) inTelemetry.add(id);
    for (const child of children) mark(child, isInside || (isHere && source !== PASSES_ON));
  };
  mark(nodes[0]?.id ?? 0, false);
  let telemetry = 0;
  let all = 0;
  samples.forEach((id, i) => {
    if (byId.get(id)?.callFrame.functionName === '(idle)') return;
    all += timeDeltas[i] ?? 0;
    if (inTelemetry.has(id)) telemetry += timeDeltas[i] ?? 0;
  });
  return telemetry / all;
}
