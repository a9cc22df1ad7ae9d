// How much of the house a reader walks through: the files of src that run for one request, and those that bring one
// denial to Postgres. And the size of src. All of these are counts, so they do not depend on the machine.
import { putRulesInForceBy } from './gateway/arena.ts';
import { ONCE_PATH, ONE_RULE_PATH, RULES } from './gateway/limits.ts';
import { type Coverage, watchCoverage } from './house/coverage.ts';
import { countSources, type SourceCounts } from './house/sources.ts';
import { FLUSH_SECONDS, startWorkerHere } from './house/worker.ts';
import type { Bench, BenchOptions, Table } from './shared/bench.ts';

export const measures = 'the files of src that run for a request and for a denial, and the size of src';

export const keys = [
  ...['src.files', 'src.lines', 'src.codeLines', 'src.longestFile', 'src.exportedTypes'],
  ...['request.files', 'request.asyncCalls', 'denial.files'],
];

export const run: Bench = async (options) => {
  const src = await countSources();
  const { request, denial } = await walk(options);
  const namesOf = ({ files }: Coverage) => [...files.keys()].sort();
  return {
    tables: [sizeTable(src), walkTable('A request with one rule', request), walkTable('A denial', denial)],
    json: {
      src,
      request: { files: request.files.size, asyncCalls: request.asyncCalls, names: namesOf(request) },
      denial: { files: denial.files.size, names: namesOf(denial) },
    },
  };
};

interface Walks {
  readonly request: Coverage;
  /** From the decision to the row in Postgres: telemetry, and files that an admitted request does not run. */
  readonly denial: Coverage;
}

const IP = '192.0.2.7';
const TELEMETRY = /^src\/(core\/)?telemetry\//;

async function walk(options: BenchOptions): Promise<Walks> {
  await using worker = await startWorkerHere(options);
  const ask = async (path: string, status: number) => {
    const told = await worker.ask(path, { headers: { 'CF-Connecting-IP': IP } });
    if (told !== status) throw new Error(`${path}: expected ${status}, got ${told}`);
  };
  /** A flush follows a response, so a request makes it happen. */
  const flush = async () => {
    await worker.settle();
    await pause(FLUSH_SECONDS * 1_100);
    await ask(ONE_RULE_PATH, 200);
    await worker.settle();
    return worker.deliver();
  };
  await putRulesInForceBy(worker.ask, RULES);
  options.say('sending requests');
  // The first requests load modules, and read what is then remembered.
  await ask(ONCE_PATH, 200);
  for (let i = 0; i < 2; i += 1) {
    await ask(ONCE_PATH, 429);
    await flush();
  }
  // The queue has counted something, too. This request takes it along.
  await ask(ONE_RULE_PATH, 200);
  await worker.settle();
  using watch = await watchCoverage(worker.folder);
  await ask(ONE_RULE_PATH, 200);
  const request = await watch.take();
  await worker.settle();
  await ask(ONCE_PATH, 429);
  if ((await flush()) === 0) throw new Error('no denial came to the queue');
  const { files, asyncCalls } = await watch.take();
  const own = new Map([...files].filter(([file]) => TELEMETRY.test(file) || !request.files.has(file)));
  return { request, denial: { files: own, asyncCalls } };
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

const sizeTable = (src: SourceCounts): Table => ({
  title: 'src',
  head: ['', 'count'],
  rows: [
    ['files', src.files],
    ['lines', src.lines],
    ['lines of code', src.codeLines],
    ['lines of the longest file', src.longestFile],
    ['exported types', src.exportedTypes],
  ],
  notes: ['Lines of code are without imports, comments and blank lines.'],
});

const walkTable = (what: string, coverage: Coverage): Table => ({
  title: `${what}: ${coverage.files.size} files, ${coverage.asyncCalls} calls of asynchronous functions`,
  head: ['file', 'calls'],
  rows: [...coverage.files].sort(([a], [b]) => a.localeCompare(b)),
});
