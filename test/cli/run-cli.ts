// Runs `weir` as a function with arguments, and returns its output and exit code; or as the process that users start.
import { execFile, spawn } from 'node:child_process';
import { runWeir } from '../../cli/weir.ts';
import type { Weir } from '../../local/weir.ts';

/** The file that npx runs. */
const CLI = new URL('../../bin/weir.js', import.meta.url).pathname;

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly error: string;
}
type Variables = Readonly<Record<string, string>>;

export async function runCli(args: readonly string[], variables: Variables = {}): Promise<Ran> {
  let out = '';
  let error = '';
  const code = await runWeir({
    args,
    variables,
    print: (line) => {
      out += `${line}\n`;
    },
    complain: (line) => {
      error += `${line}\n`;
    },
  });
  return { code, out, error };
}

/** Leaves out the variables of the shell that runs the tests. */
const environmentOf = (variables: Variables) => ({ PATH: process.env['PATH'] ?? '', ...variables });

export function runProcess(args: readonly string[], variables: Variables = {}): Promise<Ran> {
  return new Promise((resolve) => {
    execFile(process.execPath, [CLI, ...args], { env: environmentOf(variables) }, (error, out, said) =>
      resolve({ code: typeof error?.code === 'number' ? error.code : error ? 1 : 0, out, error: said }),
    );
  });
}

/** A process that runs until it is stopped. */
export function startProcess(args: readonly string[], variables: Variables) {
  const child = spawn(process.execPath, [CLI, ...args], { env: environmentOf(variables) });
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
