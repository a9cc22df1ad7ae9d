// What isolates hand over for Postgres: sums of denials and usage, cut into batches that a queue takes.
import type { Denial, Usage } from '../core/telemetry/records.ts';

export interface RecordBatch {
  /** A batch that comes twice is written once. */
  readonly id: string;
  /** When the isolate cut it, by its own clock. */
  readonly cutAtMs: number;
  readonly denials: readonly Denial[];
  readonly usage: readonly Usage[];
}

/** Takes batches over for good, or fails. */
export interface RecordSink {
  send(batch: RecordBatch): Promise<void>;
}

/** A message of a queue has at most 128 KB. */
const MOST_BYTES = 100_000;

export interface Cut {
  readonly nowMs: number;
  readonly createId: () => string;
  readonly denials: readonly Denial[];
  readonly usage: readonly Usage[];
}

export function cutBatches({ nowMs, createId, denials, usage }: Cut): RecordBatch[] {
  const base = () => ({ id: createId(), cutAtMs: nowMs });
  const pieces = [
    ...piecesOf(denials).map((some) => ({ ...base(), denials: some, usage: [] })),
    ...piecesOf(usage).map((some) => ({ ...base(), denials: [], usage: some })),
  ];
  // Mostly there is little of both: one message.
  const [first, second] = pieces;
  const isLittle = pieces.length === 2 && first && second && sizeOf(first) + sizeOf(second) < MOST_BYTES;
  return isLittle ? [{ ...first, usage: second.usage }] : pieces;
}

function piecesOf<Row>(rows: readonly Row[]): Row[][] {
  const pieces: Row[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const row of rows) {
    const size = sizeOf(row) + 1;
    if (bytes + size > MOST_BYTES) {
      pieces.push([]);
      bytes = 0;
    }
    pieces.at(-1)?.push(row);
    bytes += size;
  }
  return pieces;
}

const sizeOf = (value: unknown) => new TextEncoder().encode(JSON.stringify(value)).length;
