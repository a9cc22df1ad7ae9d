// A new algorithm is a Lua file, a TypeScript file, and its line in the registry and in the list of Lua sources. This
// test adds one to a copy of Weir, and runs the tests of every algorithm on it.
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const TOY = join(ROOT, 'test/redis/toy');
/** Everything that the contract and the model comparison import. */
const COPIED = [
  'src',
  'page',
  'lua',
  'local',
  'test/redis',
  'test/shared',
  'test/rounds.ts',
  'tsconfig.json',
  'package.json',
];
const ALGORITHMS = 'src/core/counting/algorithms';
const run = promisify(execFile);

let copy: string;
beforeAll(async () => {
  copy = await mkdtemp(join(tmpdir(), 'weir-toy-'));
  await Promise.all(COPIED.map((path) => cp(join(ROOT, path), join(copy, path), { recursive: true })));
  await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
  await addCoin();
});
afterAll(() => rm(copy, { recursive: true, force: true }));

/** All that an author of an algorithm does. */
async function addCoin(): Promise<void> {
  await cp(join(TOY, 'coin.lua'), join(copy, 'lua/counters/algorithms/coin.lua'));
  const twin = await readFile(join(TOY, 'coin.ts'), 'utf8');
  const besideOthers = twin.replace(`../../../${ALGORITHMS}/`, './');
  await writeFile(join(copy, ALGORITHMS, 'coin.ts'), besideOthers);
  await addLine(`${ALGORITHMS}/registry.ts`, './coin.ts', '{ coin }');
  await node('local/script.ts', '--write');
}

/** Adds a line to the list, which ends with concurrency, and the import that it names. */
async function addLine(path: string, from: string, imported: string): Promise<void> {
  const text = await readFile(join(copy, path), 'utf8');
  const added = text.replace(/^ {2}concurrency,$/m, '$&\n  coin,');
  expect(added).not.toBe(text);
  await writeFile(join(copy, path), `import ${imported} from '${from}';\n${added}`);
}

/**
 * Always on the Lua of Redis, because this is about what an author changes. A child that fails rejects with its output.
 */
const node = (...args: string[]) =>
  run(process.execPath, args, { cwd: copy, maxBuffer: 2 ** 26, env: { ...process.env, WEIR_LUA: '' } }).catch(
    (error) => {
      throw new Error(`${args.join(' ')} failed:\n${error.stdout}\n${error.stderr}`);
    },
  );

it('the Worker compiles with one more algorithm', async () => {
  const options = { extends: './tsconfig.json', include: ['src', 'lua'], exclude: [] };
  await writeFile(join(copy, 'tsconfig.copy.json'), JSON.stringify(options));
  // Two threads would not be faster, and take twice the processor time.
  await node('node_modules/typescript/bin/tsc', '-p', 'tsconfig.copy.json', '--singleThreaded');
});

it('a new algorithm keeps the contract on both engines, which answer alike after any history', async () => {
  const report = join(copy, 'report.json');
  const tests = ['algorithm-contract.test.ts', 'counters-model.test.ts', 'letters.test.ts', 'probe.test.ts'];
  await node(
    'node_modules/vitest/vitest.mjs',
    'run',
    ...['--config', 'test/redis/toy/vitest.config.ts', '--root', '.'],
    ...['--reporter', 'dot', '--reporter', 'json', '--outputFile.json', report],
    ...['--testNamePattern', 'coin|the script and its model|algorithm'],
    ...tests.map((name) => `test/redis/${name}`),
  );
  const { testResults } = JSON.parse(await readFile(report, 'utf8')) as Report;
  const passed = testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .filter(({ status }) => status === 'passed')
    .map(({ fullName }) => fullName);
  for (const engine of ['the script', 'its twin'])
    expect(passed.filter((name) => name.startsWith(`on ${engine} coin `)).length).toBeGreaterThan(100);
  expect(passed).toContain('the script and its model answer the same, field by field, after any history');
});

interface Report {
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
  }[];
}
