// The input and the result of each command of `weir`.
import type { WeirApi } from './weir-api.ts';

/** Bad arguments or a bad file. Its message is all that the user sees. */
export class CommandError extends Error {}

/** Weir has answered, and not with what was asked for. */
export class RefusedError extends CommandError {
  readonly status: number;
  readonly errors: readonly RefusedField[];

  constructor(message: string, status: number, errors: readonly RefusedField[]) {
    super(message);
    this.status = status;
    this.errors = errors;
  }
}

export interface RefusedField {
  readonly pointer: string;
  readonly detail: string;
}

export interface CommandContext {
  readonly api: WeirApi;
  /** The words after the name of the command. */
  readonly words: readonly string[];
  readonly options: Readonly<Record<string, string | boolean | undefined>>;
  /** Prints a line for people. Prints nothing with --json. */
  readonly say: (line: string) => void;
  /** Prints a result for programs. Prints nothing without --json. */
  readonly report: (result: unknown) => void;
}

/** 0: done. 1: the command failed. 2: the file differs from the rules in force. */
export type ExitCode = 0 | 1 | 2;

export interface Command {
  readonly usage: string;
  readonly does: string;
  /** The options by name. The value is the word for it in the help text; a switch has none. */
  readonly options: Readonly<Record<string, string | undefined>>;
  run(context: CommandContext): Promise<ExitCode>;
}

export const textOption = (options: CommandContext['options'], name: string): string | undefined => {
  const value = options[name];
  return typeof value === 'string' ? value : undefined;
};
