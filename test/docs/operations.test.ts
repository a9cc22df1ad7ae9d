// docs/operations.md explains every word that headers and the log can contain.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
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
