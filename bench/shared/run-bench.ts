// Runs one bench, in full or in its short form, and returns what it prints.
import type { BenchOptions } from './bench.ts';
import { loadBench } from './find.ts';
import { renderTable } from './table.ts';

/** A tiny part of the work: each step runs, and no figure means anything. */
const SHORT_SCALE = 0.001;

export interface RunBenchOptions extends Pick<BenchOptions, 'say' | 'parts'> {
  readonly isShort: boolean;
}

export interface RanBench {
  /** The tables. */
  readonly text: string;
  /** One line. */
  readonly json: string;
}

export async function runBench(name: string, { isShort, say, parts }: RunBenchOptions): Promise<RanBench> {
  const { run } = await loadBench(name);
  const scaled = (count: number, least = 1) =>
    Math.max(least, Math.round(count * (isShort ? SHORT_SCALE : 1)));
  const { tables, json } = await run({ say, scaled, parts });
  const notice = isShort ? 'The short form: these figures mean nothing.\n\n' : '';
  return {
    text: notice + tables.map(renderTable).join('\n\n'),
    json: JSON.stringify({ ...(isShort && { short: true }), ...json }),
  };
}
