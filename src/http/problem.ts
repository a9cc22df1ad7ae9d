// Every error body of Weir is application/problem+json (RFC 9457) with a stable `code`.

import type { FieldError } from '../core/shape.ts';

export interface Problem {
  readonly status: number;
  /** Listed in docs/operations.md. */
  readonly code: string;
  readonly title: string;
  readonly detail?: string | undefined;
  readonly errors?: readonly FieldError[] | undefined;
  /** In whole seconds. The header says the same. */
  readonly 'retry-after'?: number;
  readonly type?: string;
  readonly [extension: string]: unknown;
}

export function problem(body: Problem, headers?: Record<string, string>): Response {
  const { status, 'retry-after': seconds } = body;
  const response = Response.json({ type: 'about:blank', ...body }, { status, ...(headers && { headers }) });
  response.headers.set('content-type', 'application/problem+json');
  response.headers.set('cache-control', 'no-store');
  if (seconds !== undefined) response.headers.set('Retry-After', String(seconds));
  return response;
}
