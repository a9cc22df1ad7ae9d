// `npm run mutants`: changes one place of the code at a time, in a copy, and runs tests. A change that no test notices
// (a survivor) shows behaviour that no test asks for, or code that does nothing.
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Mutation, mutationsOf } from './mutations.ts';
import { createRandom } from './random.ts';
import { ROOT } from './worker-build.ts';

const HELP = `npm run mutants -- FOLDER_OR_FILE… --tests "FILTER…" [--also "FILTER…"] [--count N] [--seed S] [--json]

  FOLDER_OR_FILE  what to change, such as src/limiter
  --tests         the tests to run for each change, such as "test/limiter test/regions"
  --also          more tests, for changes that the first ones do not notice
  --count N       how many changes to try, drawn from all (50)
  --seed S        draws the same changes again
  --json          print one JSON object as the last line
  --help          this text`;

/** A change can make a test run for ever. */
const TIMEOUT_MS = 600_000;

interface Mutant extends Mutation {
  readonly file: string;
}

interface Verdict {
  readonly mutant: Mutant;
  readonly killedBy: 'tests' | 'also' | 'timeout' | undefined;
}

async function main(): Promise<number> {
  const text = { type: 'string' } as const;
  const flag = { type: 'boolean' } as const;
  const { values, positionals } = parseArgs({
    options: { tests: text, also: text, count: text, seed: text, json: flag, help: flag },
    allowPositionals: true,
  });
  if (values.help || positionals.length === 0 || !values.tests) {
    console.log(HELP);
    return values.help ? 0 : 2;
  }
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
  const mutants = positionals.flatMap(mutantsIn);
  const chosen = draw(mutants, Number(values.count ?? 50), seed);
  console.log(`seed ${seed}: ${chosen.length} of ${mutants.length} possible changes`);
  const copy = mkdtempSync(join(tmpdir(), 'weir-mutants-'));
  try {
    copyTree(copy);
    const suites = [values.tests, values.also].flatMap((words) => (words ? [words.split(/\s+/)] : []));
    if (await isKilled(copy, suites.flat())) throw new Error('the tests fail without any change');
    const verdicts: Verdict[] = [];
    for (const mutant of chosen) {
      verdicts.push(await judge(copy, mutant, suites));
      const { killedBy } = verdicts.at(-1) as Verdict;
      console.error(`· ${verdicts.length} of ${chosen.length}: ${killedBy ?? 'SURVIVED'} ${say(mutant)}`);
    }
    const survivors = verdicts.filter(({ killedBy }) => !killedBy).map(({ mutant }) => mutant);
    const killed = verdicts.length - survivors.length;
    console.log(
      `\n${killed} of ${verdicts.length} killed (${Math.round((100 * killed) / verdicts.length)} %)`,
    );
    for (const mutant of survivors) console.log(`survived: ${say(mutant)}`);
    if (values.json) console.log(JSON.stringify({ seed, changes: verdicts.length, killed, survivors }));
    return 0;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

function mutantsIn(place: string): Mutant[] {
  const files = place.endsWith('.ts') ? [place] : globSync(`${place}/**/*.ts`, { cwd: ROOT });
  return files
    .sort()
    .flatMap((file) => mutationsOf(readFileSync(join(ROOT, file), 'utf8')).map((one) => ({ ...one, file })));
}

function draw(mutants: readonly Mutant[], count: number, seed: number): Mutant[] {
  const random = createRandom(seed);
  return mutants
    .map((mutant) => ({ mutant, key: random() }))
    .sort((a, b) => a.key - b.key)
    .slice(0, count)
    .map(({ mutant }) => mutant);
}

/** The files of the work tree that git knows or would add, and the installed packages. */
function copyTree(to: string): void {
  const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  for (const name of listed.split('\0').filter(Boolean))
    cpSync(join(ROOT, name), join(to, name), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(to, 'node_modules'));
}

async function judge(copy: string, mutant: Mutant, suites: readonly (readonly string[])[]): Promise<Verdict> {
  const path = join(copy, mutant.file);
  const before = readFileSync(path, 'utf8');
  writeFileSync(path, before.slice(0, mutant.start) + mutant.text + before.slice(mutant.end));
  try {
    for (const [i, tests] of suites.entries()) {
      const how = await isKilled(copy, tests);
      if (how) return { mutant, killedBy: how === 'timeout' ? how : i === 0 ? 'tests' : 'also' };
    }
    return { mutant, killedBy: undefined };
  } finally {
    writeFileSync(path, before);
  }
}

/** Whether a test fails, or does not end. */
async function isKilled(copy: string, tests: readonly string[]): Promise<'failed' | 'timeout' | undefined> {
  const args = ['vitest', 'run', '--bail=1', '--reporter=dot', ...tests];
  const child = spawn('npx', args, { cwd: copy, stdio: 'ignore', detached: true });
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    // The whole group: the tests start processes of their own.
    if (child.pid) process.kill(-child.pid, 'SIGKILL');
  }, TIMEOUT_MS);
  const code = await new Promise<number | null>((resolve) => void child.once('exit', resolve));
  clearTimeout(timer);
  if (isLate) return 'timeout';
  return code === 0 ? undefined : 'failed';
}

const say = ({ file, line, was, text }: Mutant) => `${file}:${line}  ${was}  →  ${text || '(nothing)'}`;

process.chdir(dirname(join(ROOT, 'package.json')));
process.exitCode = await main();
