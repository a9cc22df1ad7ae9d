// Every error body of Weir is application/problem+json (RFC 9457) with a stable `code`.

import type { FieldError } from '../core/shape.ts';

export interface Problem {
  readonly status: number;
  /** Listed in docs/operations.md. */
  readonly code: string;
  readonly title: string;
  readonly detail?: string | undefined;
  readonly errors?: readonly FieldError[] | undefined;
  readonly type?: string;
  readonly [extension: string]: unknown;
}

export function problem(body: Problem, headers?: Record<string, string>): Response {
  const response = Response.json(
    { type: 'about:blank', ...body },
    { status: body.status, ...(headers && { headers }) },
  );
  response.headers.set('content-type', 'application/problem+json');
  response.headers.set('cache-control', 'no-store');
  return response;
}
