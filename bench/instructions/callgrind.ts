// Callgrind, a tool of Valgrind: it runs a program and counts every instruction, of all threads. The count does not
// depend on what else the machine does.
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { findOrInstall, type Machine } from '../../local/packages.ts';

export interface Callgrind {
  readonly valgrind: string;
  readonly control: string;
}

/** Undefined where there is no Valgrind: it runs on Linux only. */
export async function findOrInstallCallgrind(machine: Machine): Promise<Callgrind | undefined> {
  if ((machine.platform ?? process.platform) !== 'linux') return undefined;
  return await findOrInstall(machine, {
    name: 'valgrind',
    find(binary) {
      const [valgrind, control] = [binary('valgrind'), binary('callgrind_control')];
      return valgrind && control ? { valgrind, control } : undefined;
    },
    apt: ['valgrind'],
    brew: [],
    hint: 'install Valgrind ("apt-get install valgrind") and run this again',
  });
}

/** The words before the program. Callgrind starts without counting: the program then runs five times as fast. */
export const underCallgrind = ({ valgrind }: Callgrind, file: string): string[] => [
  valgrind,
  '-q',
  '--tool=callgrind',
  '--instr-atstart=no',
  // V8 writes machine code while it runs.
  '--smc-check=all-non-file',
  `--callgrind-out-file=${file}`,
];

export interface Counted {
  readonly pid: number;
  /** The file that `underCallgrind` was given. */
  readonly file: string;
  /** Work that is not counted. Callgrind stops for seconds when it begins to count, and requests could time out. */
  readonly before: () => Promise<unknown>;
  readonly work: () => Promise<unknown>;
}

/** The instructions of the process while `work` runs. */
export async function countInstructions(
  { control }: Callgrind,
  { pid, file, before, work }: Counted,
): Promise<number> {
  const tell = (...words: string[]) => promisify(execFile)(control, [...words, String(pid)]);
  await tell('--instr=on');
  await before();
  await tell('--zero');
  await work();
  await tell('--dump');
  await tell('--instr=off');
  const [, total] = /^totals: (\d+)$/m.exec(await readFile(`${file}.1`, 'latin1')) ?? [];
  if (total === undefined) throw new Error('callgrind has written no total');
  return Number(total);
}
