// Runs `weir` as a user does: a process, with its arguments, what it prints and how it ends.
import { execFile, spawn } from 'node:child_process';
import type { Weir } from '../../local/weir.ts';

const CLI = new URL('../../cli/weir.ts', import.meta.url).pathname;

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly error: string;
}

/** Without variables of whoever runs the tests. */
export function runCli(
  args: readonly string[],
  variables: Readonly<Record<string, string>> = {},
): Promise<Ran> {
  const env = { PATH: process.env['PATH'] ?? '', ...variables };
  return new Promise((resolve) => {
    execFile(process.execPath, [CLI, ...args], { env }, (error, out, said) =>
      resolve({ code: typeof error?.code === 'number' ? error.code : error ? 1 : 0, out, error: said }),
    );
  });
}

/** One that goes on until it is stopped. */
export function startCli(args: readonly string[], variables: Readonly<Record<string, string>>) {
  const child = spawn(process.execPath, [CLI, ...args], {
    env: { PATH: process.env['PATH'] ?? '', ...variables },
  });
  let out = '';
  child.stdout.on('data', (piece: Buffer) => {
    out += piece.toString();
  });
  return { out: () => out, [Symbol.dispose]: () => void child.kill() };
}

export const urlOf = (weir: Weir): string => weir.isolates.urls['one'] ?? '';

export const variablesOf = (weir: Weir): Record<string, string> => ({
  WEIR_URL: urlOf(weir),
  ADMIN_TOKEN: weir.token,
});
