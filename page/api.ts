// Calls the admin API with the session of the person at the page. Every call carries its CSRF token: without it, Weir
// answers no script.

const ADMIN = '/_weir/admin';
const { csrf = '', role = 'read', name = '' } = document.body.dataset;

export const me = { name, mayChange: role === 'admin' };

export interface FieldError {
  readonly pointer: string;
  readonly detail: string;
}

/** An answer that is not a success, in words for people. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly errors: readonly FieldError[];

  constructor(
    status: number,
    body: Partial<{ title: string; detail: string; code: string; errors: FieldError[] }>,
  ) {
    super([body.title ?? `Weir answered ${status}`, body.detail].filter(Boolean).join('. '));
    this.status = status;
    this.code = body.code ?? '';
    this.errors = body.errors ?? [];
  }
}

export interface Page<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
}

export interface CallOptions {
  readonly method?: string;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  readonly ifMatch?: string | undefined;
}

/** The answer itself, for code that needs its headers. */
export async function call(path: string, { method = 'GET', body, signal, ifMatch }: CallOptions = {}) {
  const headers = new Headers();
  if (csrf !== '') headers.set('X-Weir-Csrf', csrf);
  if (body !== undefined) headers.set('Content-Type', 'application/json');
  if (ifMatch !== undefined) headers.set('If-Match', ifMatch);
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const answer = await fetch(path, { method, headers, ...sent, ...(signal && { signal }) }).catch((error) => {
    if (signal?.aborted) throw error;
    throw new ApiError(0, { title: 'Weir does not answer', detail: 'The network or the Worker is down' });
  });
  if (answer.ok) return answer;
  const failed = new ApiError(answer.status, await answer.json().catch(() => ({})));
  // The session has ended. The log-in form is at the same address.
  if (answer.status === 401) location.reload();
  throw failed;
}

async function json<T>(path: string, options?: CallOptions): Promise<T> {
  const answer = await call(path, options);
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

type Query = Readonly<Record<string, string | number | boolean | null | undefined>>;

export function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  const given = Object.entries(query).flatMap(([field, value]) =>
    value === undefined || value === null || value === '' ? [] : [[field, String(value)]],
  );
  const search = new URLSearchParams(given).toString();
  return json(`${ADMIN}${path}${search && `?${search}`}`, { signal });
}

export const post = <T>(path: string, body: unknown): Promise<T> =>
  json(`${ADMIN}${path}`, { method: 'POST', body });

export const patch = <T>(path: string, body: unknown, ifMatch?: string): Promise<T> =>
  json(`${ADMIN}${path}`, { method: 'PATCH', body, ifMatch });

export const remove = <T>(path: string): Promise<T> => json(`${ADMIN}${path}`, { method: 'DELETE' });

export const health = <T>(signal?: AbortSignal): Promise<T> => json('/_weir/health', { signal });

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
