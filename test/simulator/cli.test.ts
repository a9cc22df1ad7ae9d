import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const ENTRY = fileURLToPath(new URL('../../local/simulate.ts', import.meta.url));

const run = (...args: string[]) =>
  new Promise<{ code: number; said: string; printed: string }>((resolve) => {
    const child = execFile(process.execPath, [ENTRY, ...args], (_, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, said: stdout + stderr, printed: stdout }),
    );
  });

describe('npm run simulate', () => {
  it('prints its usage', async () => {
    expect(await run('--help')).toMatchObject({ code: 0, said: expect.stringContaining('--seed N') });
  });

  it.each([
    [['--seed', 'x'], '--seed must be a whole number'],
    [['--requests', '0'], '--requests must be a whole number from 1 on'],
    [['--kind', 'calm'], '--kind must be one of quiet'],
    [['--fast'], "Unknown option '--fast'"],
  ])('names the problem of %s', async (args, complaint) => {
    expect(await run(...args)).toMatchObject({ code: 2, said: expect.stringContaining(complaint) });
  });

  it('prints its seed, whether limits were exceeded, and the figures', async () => {
    const { code, said, printed } = await run(
      '--seed',
      '1',
      '--requests',
      '1',
      '--kind',
      'quiet',
      '--jobs',
      '1',
      '--json',
    );
    expect(said).toContain('seed 1\n');
    expect(said).toContain('limits exceeded');
    expect(JSON.parse(printed.trim().split('\n').at(-1) ?? '')).toMatchObject({
      seed: 1,
      over: 0,
      passed: true,
    });
    expect(code).toBe(0);
  });
});
