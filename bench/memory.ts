// Measures the memory of a Worker after requests of a million subjects: Weir as deployed, and an empty proxy after a
// tenth of them. Both have as much heap as a Worker on Cloudflare.
import { type Arena, startArena } from './gateway/arena.ts';
import { ONCE_PATH } from './gateway/limits.ts';
import { startSubjectsLoad } from './memory/load.ts';
import { type MemorySample, sampleMemory } from './memory/sample.ts';
import type { Bench, BenchOptions, Table } from './shared/bench.ts';
import { tallyReasons, uncountedNotes } from './shared/reasons.ts';
import { fixed } from './shared/table.ts';

export const measures = 'the JavaScript heap over requests of a million subjects, beside an empty proxy';

const FIGURES = ['subjects', 'uncounted', 'heapMb', 'grownKb', 'processMb'];
export const keys = FIGURES.flatMap((figure) => [`${figure}.weir`, `${figure}.proxy`]);

const SUBJECTS = { weir: 1_000_000, proxy: 100_000 };
type Name = keyof typeof SUBJECTS;
const LABELS = { weir: 'Weir', proxy: 'An empty proxy' };
/** The first round warms up: it compiles code and fills every cache. */
const ROUNDS = 10;
/** The heap of a Worker on Cloudflare. */
const MAX_HEAP_MB = 128;
const CONCURRENCY = 16;

interface Course {
  readonly perRound: number;
  /** One sample before the first request, and one after each round. */
  readonly samples: readonly MemorySample[];
  /** Why requests were not counted. */
  readonly reasons: readonly string[];
}

export const run: Bench = async (options) => {
  await using arena = await startArena(options);
  const weir = await courseOf('weir', arena, options);
  const proxy = await courseOf('proxy', arena, options);
  const each = <T>(figure: (course: Course) => T) => ({ weir: figure(weir), proxy: figure(proxy) });
  return {
    tables: [tableOf('weir', weir), tableOf('proxy', proxy)],
    json: {
      subjects: each(({ perRound, samples }) => perRound * (samples.length - 1)),
      uncounted: each(({ reasons }) => reasons.length),
      uncountedReasons: tallyReasons([...weir.reasons, ...proxy.reasons]),
      heapMb: each(({ samples }) => samples.at(-1)?.heapMb),
      processMb: each(({ samples }) => samples.at(-1)?.processMb),
      grownKb: each(grownKbOf),
      heapsMb: each(({ samples }) => samples.map(({ heapMb }) => heapMb)),
    },
  };
};

/** Runs in its own process, so that the memory of the process is that of this Worker. */
async function courseOf(name: Name, arena: Arena, { say, scaled }: BenchOptions): Promise<Course> {
  await using workerd = await arena.serve({ inspect: true, mostHeapMb: MAX_HEAP_MB });
  await using load = startSubjectsLoad();
  const perRound = scaled(SUBJECTS[name] / ROUNDS, CONCURRENCY);
  const url = workerd.urls[name] ?? '';
  const target = { origin: url, path: `${ONCE_PATH}?bytes=256`, isWeir: name === 'weir' };
  const ask = async () => void (await (await fetch(url)).arrayBuffer());
  const sample = () => sampleMemory({ inspectorUrl: workerd.inspectors[name] ?? '', pid: workerd.pid, ask });
  const samples = [await sample()];
  const reasons: string[] = [];
  for (let round = 0; round < scaled(ROUNDS, 2); round += 1) {
    const asked = { target, concurrency: CONCURRENCY, from: round * perRound, count: perRound };
    reasons.push(...(await load.run(asked)));
    samples.push(await sample());
    say(`${LABELS[name]}: ${(round + 1) * perRound} subjects, heap ${fixed(samples.at(-1)?.heapMb ?? 0)} MB`);
  }
  return { perRound, samples, reasons };
}

/** From the end of the warm-up to the end. */
const grownKbOf = ({ samples }: Course): number =>
  ((samples.at(-1)?.heapMb ?? Number.NaN) - (samples[1]?.heapMb ?? Number.NaN)) * 1_024;

const tableOf = (name: Name, course: Course): Table => ({
  title: `${LABELS[name]}: memory over subjects that ask once or twice`,
  head: ['subjects', 'heap MB', 'process MB'],
  rows: course.samples.map(({ heapMb, processMb }, round) => [
    round * course.perRound,
    fixed(heapMb),
    fixed(processMb, 0),
  ]),
  notes: [
    ...uncountedNotes(course.reasons),
    `The heap grew by ${fixed(grownKbOf(course), 0)} KB after the first ${course.perRound} subjects.`,
    'The heap is what JavaScript still reaches after three collections, buffers included.',
    `V8 may use ${MAX_HEAP_MB} MB, as on Cloudflare. Under wrangler dev it has no limit and hardly ever collects.`,
  ],
});
