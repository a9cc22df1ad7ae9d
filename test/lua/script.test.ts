// The script that Redis runs is a file that can be looked at: lua/counters.lua, put together from lua/counters.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { composeScript } from '../../local/script.ts';
import { ALGORITHM_IDS, letterOf, traitsOf } from '../../src/core/counting/algorithms/registry.ts';
import { loadScript } from '../../src/redis/script.ts';

const ROOT = new URL('../../', import.meta.url);

it('lua/counters.lua is what the files of lua/counters make: npm run script -- --write', async () => {
  expect((await loadScript()).text).toBe(composeScript());
});

it('`npm run script` prints the script', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['local/script.ts'], {
    cwd: fileURLToPath(ROOT),
  });
  expect(stdout).toBe(composeScript());
});

it.each(ALGORITHM_IDS)('%s has the same letter and traits in Lua as in TypeScript', (id) => {
  const { mostUnits, holdsSeats, countsUnits, extra } = traitsOf(id);
  const traits = [
    ...(countsUnits ? ['countsUnits = true'] : []),
    ...(extra === 'buckets' ? ['hasBuckets = true'] : []),
    ...(mostUnits === undefined ? [] : [`mostUnits = ${mostUnits}`]),
    ...(holdsSeats ? ['holdsSeats = true'] : []),
  ];
  const source = readFileSync(new URL(`lua/counters/algorithms/${id}.lua`, ROOT), 'utf8');
  const [, letter, said = ''] = /^traits\.(\w) = \{ (.*) \}$/m.exec(source) ?? [];
  expect([letter, said.split(', ')]).toEqual([letterOf(id), [`id = '${id}'`, ...traits]]);
});
