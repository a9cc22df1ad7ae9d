// Calls a running Weir. Each error is one line, without the token.
import { CommandError, RefusedError, type RefusedField } from './command.ts';

export interface WeirApi {
  readonly url: string;
  /** `path` is the part after /_weir/admin. */
  admin<T>(method: 'GET' | 'POST', path: string, body?: unknown): Promise<T>;
  /** The unparsed text of an answer. */
  adminText(path: string): Promise<string>;
  /** Asks as a caller, without the admin token. */
  asCaller<T>(path: string, headers: Readonly<Record<string, string>>): Promise<T>;
}

interface Problem {
  readonly title?: string;
  readonly detail?: string;
  readonly errors?: readonly RefusedField[];
}

export function createWeirApi(url: string, token: string | undefined): WeirApi {
  const base = url.replace(/(?<!\/)\/+$/, '');
  const send = async (path: string, init: RequestInit) => {
    const answer = await fetch(base + path, init).catch(() => {
      throw new CommandError(`nothing answers at ${base}: give the URL of Weir with --url or WEIR_URL`);
    });
    if (!answer.ok) throw await refusalBy(base, answer);
    return answer;
  };
  const toJson = async <T>(answer: Response) =>
    (await answer.json().catch(() => {
      throw new CommandError(`${base} does not answer as Weir does`);
    })) as T;
  const asAdmin = async (method: string, path: string, body?: unknown): Promise<Response> => {
    if (token === undefined)
      throw new CommandError('an admin token is needed: set ADMIN_TOKEN, or give --token');
    return send(`/_weir/admin${path}`, {
      method,
      headers: {
        Authorization: `Bearer ${token}`,
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  };
  return {
    url: base,
    admin: async <T>(method: string, path: string, body?: unknown) =>
      toJson<T>(await asAdmin(method, path, body)),
    adminText: async (path) => (await asAdmin('GET', path)).text(),
    asCaller: async <T>(path: string, headers: Readonly<Record<string, string>>) =>
      toJson<T>(await send(path, { headers })),
  };
}

async function refusalBy(base: string, answer: Response): Promise<RefusedError> {
  const { status } = answer;
  const isProblem = answer.headers.get('Content-Type')?.startsWith('application/problem+json') === true;
  if (!isProblem) return new RefusedError(`${base} answers ${status}, and not as Weir does`, status, []);
  const { title = '', detail, errors = [] } = (await answer.json()) as Problem;
  const lines = errors.map(({ pointer, detail: what }) => `  ${pointer} ${what}`);
  const message = [`${status} ${title}${detail === undefined ? '' : `. ${detail}`}`, ...lines].join('\n');
  return new RefusedError(message, status, errors);
}
