// Every bench still runs: its short form, with all figures that docs and issues name. No time is judged here, so a busy
// machine changes nothing.
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, inject, it } from 'vitest';
import { OLDER_LIMIT } from '../../bench/rules/propagation.ts';
import { findBenches, loadBench } from '../../bench/shared/find.ts';
import { type RanBench, runBench } from '../../bench/shared/run-bench.ts';
import type { WeirParts } from '../../local/weir.ts';
import { createSharedParts } from '../shared/parts.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** A bench takes seconds. This ends one that never would. */
const TIMEOUT_MS = 300_000;
/** What a busy machine does to requests. Any other reason is a bug of the bench, or of Weir. */
const REASONS_OF_A_BUSY_MACHINE = [
  'timeout',
  'slow',
  'breaker-open',
  'stand-in',
  'no-rules',
  'stale-rules',
  OLDER_LIMIT,
];

type Json = Readonly<Record<string, unknown>>;

/** The bundle and a database of this run, so that a bench need not make them. */
async function withParts<T>(use: (parts: Required<BenchParts>) => Promise<T>): Promise<T> {
  const shared = createSharedParts(inject('sharedParts'));
  const databaseUrl = await shared.createDatabase('migrated');
  const bundle = await shared.worker();
  return await use({ bundle, databaseUrl }).finally(() => shared.dropDatabase(databaseUrl));
}
type BenchParts = Pick<WeirParts, 'bundle' | 'databaseUrl'>;

/** Runs in this process: starting another one for each bench would take longer than most short forms. */
const runShortForm = (name: string): Promise<RanBench> =>
  withParts((parts) => runBench(name, { isShort: true, say: () => {}, parts }));

/** A number; null if too little was counted for one; or a boolean. */
function isFigure(value: unknown): boolean {
  return value === null || typeof value === 'number' || typeof value === 'boolean';
}

const valueAt = (json: Json, path: string): unknown =>
  path.split('.').reduce<unknown>((value, key) => (value as Json | undefined)?.[key], json);

describe.each(findBenches())('the bench %s', (name) => {
  it('says in one line what it measures, and CONTRIBUTING.md lists it', async () => {
    const { measures } = await loadBench(name);
    expect(measures).toMatch(/^.{20,110}$/);
    expect(await readFile(`${ROOT}/CONTRIBUTING.md`, 'utf8')).toContain(`\`npm run bench -- ${name}\``);
  });

  it('runs in its short form, with every figure that it promises', { timeout: TIMEOUT_MS }, async () => {
    const { keys } = await loadBench(name);
    expect(keys.length).toBeGreaterThan(0);
    const ran = await runShortForm(name);
    expect(ran.text).toContain('The short form');
    const json = JSON.parse(ran.json) as Json;
    expect(keys.filter((key) => !isFigure(valueAt(json, key)))).toEqual([]);
    const reasons = Object.keys((json['uncountedReasons'] as Json | undefined) ?? {});
    expect(reasons.filter((reason) => !REASONS_OF_A_BUSY_MACHINE.includes(reason))).toEqual([]);
  });
});

it('npm run bench prints the tables, and with --json one object as the last line', async () => {
  const args = ['--import', './local/lua-text.ts', 'bench/run.ts', 'locks', '--short', '--json'];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT, timeout: TIMEOUT_MS });
  expect(stdout).toMatch(/^The short form: these figures mean nothing\.$/m);
  expect(stdout).toMatch(/^announcement +ms for all/m);
  expect(JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')).toMatchObject({ short: true, holdMs: 1 });
});
