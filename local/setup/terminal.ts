// Asks a person at a terminal, or reads the answers from a pipe, one line for each question.
import { createInterface } from 'node:readline';
import { StackError } from '../ports.ts';

export interface Terminal extends Disposable {
  ask(question: string): Promise<string>;
}

export interface TerminalStreams {
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream;
}

/** One reader for all questions: lines that arrive early (pasted, or from a pipe) wait for their question. */
export function openTerminal({ input, output }: TerminalStreams): Terminal {
  const reader = createInterface({ input });
  const lines = reader[Symbol.asyncIterator]();
  return {
    async ask(question) {
      output.write(question);
      const { value, done } = await lines.next();
      if (done) throw new StackError(`there is no answer to: ${question.trim()}`);
      return value.trim();
    },
    [Symbol.dispose]: () => reader.close(),
  };
}
