// docs/operations.md explains every word that headers and the log can contain.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { pageWithTable, readVariables } from '../../local/variable-table.ts';
import { DEGRADED_REASONS, FALLBACKS } from '../../src/core/decision.ts';
import { LOG_EVENTS } from '../../src/http/log.ts';

const text = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8');

describe.each([
  ['reason', DEGRADED_REASONS],
  ['step of the ladder', FALLBACKS],
  ['event', LOG_EVENTS],
] as const)('docs/operations.md explains each %s:', (_, words) => {
  it.each<string>(words)('%s', (word) => expect(text).toContain(`\`${word}\``));
});

it('docs/operations.md has the table of variables as the code declares them', () =>
  expect(text, 'write it with `npx node local/variable-table.ts`').toBe(pageWithTable(text)));

it('every variable has a comment, which is its line in that table', () =>
  expect(readVariables().filter((variable) => variable.text === '')).toEqual([]));
