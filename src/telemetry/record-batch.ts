// Batches of denials and usage that isolates hand over, cut to the size that a queue takes.
import type { MetricsBatch } from '../core/ports/metrics-board.ts';
import type { Crossing } from '../core/telemetry/crossings.ts';
import type { Denial, Usage } from '../core/telemetry/records.ts';

export interface RecordBatch {
  /** A batch that comes twice is written once. */
  readonly id: string;
  /** When the isolate cut it, by its own clock. */
  readonly cutAtMs: number;
  readonly denials: readonly Denial[];
  readonly usage: readonly Usage[];
  /** Left out if there are none. */
  readonly crossings?: readonly Crossing[];
  /** Metrics that no region took. Such a batch holds nothing else. */
  readonly metrics?: MetricsRecord;
}

/** What an isolate hands over if no region takes it. */
export interface MetricsRecord extends Pick<MetricsBatch, 'isolateId' | 'sums' | 'report'> {}

/** Accepts batches for good, or fails. */
export interface RecordSink {
  send(batch: RecordBatch): Promise<void>;
}

/** A message of a queue has at most 128 KB. */
const MAX_BYTES = 100_000;

export interface Cut extends Pick<RecordBatch, 'denials' | 'usage'> {
  readonly nowMs: number;
  readonly createId: () => string;
  readonly crossings: readonly Crossing[];
}

export function cutBatches({ nowMs, createId, denials, usage, crossings }: Cut): RecordBatch[] {
  const pieces: Partial<RecordBatch>[] = [
    ...piecesOf(denials).map((some) => ({ denials: some })),
    ...piecesOf(usage).map((some) => ({ usage: some })),
    ...piecesOf(crossings).map((some) => ({ crossings: some })),
  ];
  const bytes = pieces.reduce((sum, piece) => sum + sizeOf(piece), 0);
  // Mostly there are few rows of each kind, and one message holds all of them.
  const messages = pieces.length > 1 && bytes < MAX_BYTES ? [Object.assign({}, ...pieces)] : pieces;
  return messages.map((rows) => ({ id: createId(), cutAtMs: nowMs, denials: [], usage: [], ...rows }));
}

function piecesOf<Row>(rows: readonly Row[]): Row[][] {
  const pieces: Row[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const row of rows) {
    const size = sizeOf(row) + 1;
    if (bytes + size > MAX_BYTES) {
      pieces.push([]);
      bytes = 0;
    }
    pieces.at(-1)?.push(row);
    bytes += size;
  }
  return pieces;
}

const sizeOf = (value: unknown) => new TextEncoder().encode(JSON.stringify(value)).length;
