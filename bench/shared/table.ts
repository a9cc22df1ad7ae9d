// Prints tables as text: the first column to the left, numbers to the right.
import type { Table } from './bench.ts';

export function renderTable({ title, head, rows, notes = [] }: Table): string {
  const lines = [head, ...rows].map((row) => row.map(String));
  const widths = head.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  const render = (line: readonly string[]) =>
    widths
      .map((width, column) => {
        const cell = line[column] ?? '';
        return column === 0 ? cell.padEnd(width) : cell.padStart(width);
      })
      .join('  ')
      .trimEnd();
  const [first = [], ...rest] = lines;
  const rule = '─'.repeat(widths.reduce((sum, width) => sum + width + 2, -2));
  return [title, render(first), rule, ...rest.map(render), ...notes.map((note) => `  ${note}`)].join('\n');
}

export const fixed = (value: number, digits = 2) => value.toFixed(digits);

/** A share as a percentage. */
export const percent = (share: number, digits = 2) => `${(share * 100).toFixed(digits)} %`;
