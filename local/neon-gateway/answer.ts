// Writes HTTP answers: results, and failures with Neon's texts and statuses.
import pg from 'pg';
import type { Faults } from '../upstash-gateway/faults.ts';

export interface Answer {
  status: number;
  body: string;
  headers?: Record<string, string>;
  contentType?: string;
}

/** A failure to answer with `status` and `message`, as Neon would. */
export class GatewayError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

// Every error has all of these, null if Postgres does not set them: the driver copies exactly these fields.
const ERROR_FIELDS = [
  'code',
  'detail',
  'hint',
  'position',
  'internalPosition',
  'internalQuery',
  'severity',
  'where',
  'table',
  'column',
  'schema',
  'dataType',
  'constraint',
  'file',
  'line',
  'routine',
] as const;

export function renderError(error: unknown): Answer {
  const message = error instanceof Error ? error.message || String(error) : String(error);
  const source: Partial<pg.DatabaseError> = error instanceof pg.DatabaseError ? error : {};
  const fields = Object.fromEntries(ERROR_FIELDS.map((field) => [field, source[field] ?? null]));
  return { status: statusOf(error), body: JSON.stringify({ message, ...fields }) };
}

/** The driver reads these fields of a 400 only. So every error of Postgres itself is a 400. */
function statusOf(error: unknown): number {
  if (error instanceof GatewayError) return error.status;
  return error instanceof pg.DatabaseError ? 400 : 500;
}

/** The answer that a fault sends instead of the real one. */
export function fakeAnswer({ status, garbage, wrongShape }: Faults): Answer | null {
  if (status !== undefined) return renderError(new GatewayError(status, `fault: status ${status}`));
  if (garbage) return { status: 200, body: '<html>not what you asked for</html>', contentType: 'text/html' };
  if (wrongShape) return { status: 200, body: '{"outcome":[{"value":true}]}' };
  return null;
}
