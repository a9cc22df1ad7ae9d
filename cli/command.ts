// What a command of `weir` is given, and what it gives back.
import type { WeirApi } from './weir-api.ts';

/** Bad arguments or a bad file: the message says all. */
export class CommandError extends Error {}

export interface CommandContext {
  readonly api: WeirApi;
  /** What follows the name of the command. */
  readonly words: readonly string[];
  readonly options: Readonly<Record<string, string | boolean | undefined>>;
  /** A line for people. With --json none is printed. */
  readonly say: (line: string) => void;
  /** A result for machines. Without --json none is printed. */
  readonly report: (result: unknown) => void;
}

/** 0: done. 1: it failed. 2: the file and the rules in force are not the same. */
export type ExitCode = 0 | 1 | 2;

export interface Command {
  readonly usage: string;
  readonly does: string;
  /** Names of options, with a word for their value, or without one for a switch. */
  readonly options: Readonly<Record<string, string | undefined>>;
  run(context: CommandContext): Promise<ExitCode>;
}

export const textOption = (options: CommandContext['options'], name: string): string | undefined => {
  const value = options[name];
  return typeof value === 'string' ? value : undefined;
};
