// What a program printed last, for the message that says why it failed.
import type { ChildProcess } from 'node:child_process';

export function followOutput(child: ChildProcess): () => string {
  let tail = '';
  const keep = (chunk: Buffer) => {
    tail = (tail + chunk.toString()).slice(-2_000);
  };
  child.on('error', (error) => keep(Buffer.from(error.message)));
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  return () => tail.trimEnd().split('\n').at(-1)?.trim() || 'it said nothing';
}
