// `npm run simulate`: the limiter of many isolates over three regions, on virtual time and a network with faults. It
// exits with 1 if a limit was exceeded, if something is held for ever, or if callers could use too little of their
// limits.
import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import type { Failure } from './simulator/episode.ts';
import { keepEpisode } from './simulator/kept-episode.ts';
import { renderSummary, toJson } from './simulator/report.ts';
import { type EpisodeName, scenarioOf, simulate } from './simulator/run.ts';
import { KINDS, type Kind } from './simulator/scenario.ts';
import { shrinkOver } from './simulator/shrink.ts';
import { belowFloors, hasFailed, type Summary } from './simulator/summary.ts';
import { startWorker } from './simulator/workers.ts';

const HELP = `npm run simulate -- [--seed N] [--requests M] [--short] [--kind KIND] [--episode E] [--keep FILE] [--jobs J] [--json]
npm run simulate -- --scale [--json]

  --seed N      everything is drawn from it; a fresh one is drawn, and printed, if left out
  --requests M  stop after so many requests (10000000)
  --short       stop after 100000
  --kind KIND   episodes of one kind only: ${KINDS.join(', ')}
  --episode E   only that episode of the seed; if a limit is exceeded in it, the smallest history that shows it
  --keep FILE   with --episode: writes that smallest history into a file, for test/simulator/episodes
  --jobs J      threads (as many as there are cores)
  --scale       what each resource needs at 10³ to 10⁷ requests a second; draws docs/images/scale.svg
  --json        print one JSON object as the last line
  --help        this text`;

const LONG = 10_000_000;
const SHORT = 100_000;
const PROGRESS_MS = 5_000;

/** Bad arguments. The message is all that the user sees. */
class UsageError extends Error {}

interface Settings {
  readonly seed: number;
  readonly requests: number;
  readonly kind: Kind | undefined;
  readonly episode: number | undefined;
  readonly keep: string | undefined;
  readonly jobs: number;
  readonly json: boolean;
  readonly scale: boolean;
}

function parseSettings(args: readonly string[]): Settings | undefined {
  const text = { type: 'string' } as const;
  const flag = { type: 'boolean' } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      seed: text,
      requests: text,
      short: flag,
      kind: text,
      episode: text,
      keep: text,
      jobs: text,
      scale: flag,
      json: flag,
      help: flag,
    },
  });
  if (values.help) return undefined;
  const { kind } = values;
  if (kind !== undefined && !KINDS.includes(kind as Kind))
    throw new UsageError(`--kind must be one of ${KINDS.join(', ')}, not "${kind}"`);
  return {
    seed: parseWhole('seed', values.seed) ?? Math.floor(Math.random() * 2 ** 31),
    requests: parseWhole('requests', values.requests, 1) ?? (values.short ? SHORT : LONG),
    kind: kind as Kind | undefined,
    episode: parseWhole('episode', values.episode),
    keep: values.keep,
    jobs: parseWhole('jobs', values.jobs, 1) ?? availableParallelism(),
    json: values.json === true,
    scale: values.scale === true,
  };
}

function parseWhole(name: string, text: string | undefined, least = 0): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= least && text.trim() !== '') return value;
  throw new UsageError(`--${name} must be a whole number from ${least} on, not "${text}"`);
}

async function main(): Promise<number> {
  const settings = parseSettings(process.argv.slice(2));
  if (!settings) {
    console.log(HELP);
    return 0;
  }
  const { seed, kind, episode } = settings;
  if (settings.scale) return (await import('./scale/run.ts')).showScale(settings);
  console.log(`seed ${seed}`);
  if (episode !== undefined) return replay({ seed, number: episode, kind }, settings.keep);
  const summary = await runAll(settings);
  console.log(`\n${renderSummary(summary)}`);
  for (const line of belowFloors(summary)) console.log(`too little used: ${line}`);
  for (const failure of summary.failed)
    console.log(sayFailure(failure, { seed, number: failure.episode, kind }));
  const over = summary.failed.find((failure) => failure.kind === 'over');
  if (over) await explain({ seed, number: over.episode, kind }, over);
  if (settings.json) console.log(JSON.stringify(toJson(summary, seed)));
  return hasFailed(summary) ? 1 : 0;
}

async function runAll({ jobs, ...settings }: Settings): Promise<Summary> {
  await using cleanup = new AsyncDisposableStack();
  const workers = Array.from({ length: jobs }, () => cleanup.use(startWorker()));
  const startedAtMs = performance.now();
  let toldAtMs = startedAtMs;
  const onEpisode = ({ requests, over, failed }: Summary) => {
    if (performance.now() - toldAtMs < PROGRESS_MS) return;
    toldAtMs = performance.now();
    const perSecond = Math.round((1_000 * requests) / (toldAtMs - startedAtMs));
    console.error(
      `· ${requests} requests, ${perSecond} a second; ${over} limits exceeded, ${failed.length} failures`,
    );
  };
  return await simulate({ ...settings, runners: workers.map(({ run }) => run), onEpisode });
}

async function replay(name: EpisodeName, keep: string | undefined): Promise<number> {
  const { runNamed } = await import('./simulator/run.ts');
  const { failures, requests, admitted } = await runNamed(name);
  console.log(
    `episode ${name.number}: ${requests} requests, ${admitted} admitted, ${failures.length} failures`,
  );
  for (const failure of failures) console.log(sayFailure(failure, name));
  const over = failures.find(({ kind }) => kind === 'over');
  if (over) await explain(name, over, keep);
  return failures.length > 0 ? 1 : 0;
}

const sayFailure = ({ kind, said }: Failure, { seed, number, kind: only }: EpisodeName) =>
  `${kind}: ${said}\n  npm run simulate -- --seed ${seed} --episode ${number}${only ? ` --kind ${only}` : ''}`;

/** Prints the smallest history that shows the failure, and keeps it in a file if one is named. */
async function explain(name: EpisodeName, failure: Failure, keep?: string): Promise<void> {
  const { subject, said } = failure;
  if (subject === undefined) return;
  console.log(`\nmaking episode ${name.number} smaller`);
  const { scenario, requests, journal } = await shrinkOver(scenarioOf(name), subject);
  if (keep !== undefined) {
    const foundBy = sayFailure(failure, name).split('\n').at(-1)?.trim() ?? '';
    const kept = keepEpisode(scenario, { wentWrong: `${said}. The cause is not known yet.`, foundBy });
    writeFileSync(keep, `${JSON.stringify(kept, null, 2)}\n`);
  }
  const paths = new Set(scenario.subjects.map(({ path }) => path));
  const { contents, subjects: _, ...world } = scenario;
  console.log(JSON.stringify(world));
  for (const { atMs, content } of contents) {
    const rules = content.sets.filter(({ path }) => paths.has(path)).flatMap((set) => set.rules);
    console.log(`rules from ${atMs} on: ${JSON.stringify(rules)}\n  ${JSON.stringify(content.shares)}`);
  }
  console.log(`${requests} requests; time in ms from the start:\n${journal.join('\n')}`);
}

try {
  process.exitCode = await main();
} catch (error) {
  const isKnown =
    error instanceof UsageError || (error as NodeJS.ErrnoException).code?.startsWith('ERR_PARSE_ARGS');
  console.error(isKnown ? `${(error as Error).message}\n\n${HELP}` : error);
  process.exitCode = isKnown ? 2 : 1;
}
