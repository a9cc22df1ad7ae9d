import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

it('the Go program is formatted as gofmt formats it', () => {
  const folder = fileURLToPath(new URL('../../local/upstash-lua', import.meta.url));
  expect(execFileSync('gofmt', ['-l', folder], { encoding: 'utf8' })).toBe('');
});
