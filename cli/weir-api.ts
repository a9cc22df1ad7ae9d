// Calls a running Weir. Each error is one line, without the token.
import { CommandError } from './command.ts';

export interface WeirApi {
  readonly url: string;
  /** `path` is the part after /_weir/admin. */
  admin<T>(method: 'GET' | 'POST', path: string, body?: unknown): Promise<T>;
  /** The unparsed text of an answer. */
  adminText(path: string): Promise<string>;
  /** Sends a request as a caller, without the admin token. */
  call(path: string, headers: Readonly<Record<string, string>>): Promise<Response>;
}

interface Problem {
  readonly title?: string;
  readonly detail?: string;
  readonly errors?: readonly { readonly pointer: string; readonly detail: string }[];
}

export function createWeirApi(url: string, token: string | undefined): WeirApi {
  const base = url.replace(/(?<!\/)\/+$/, '');
  const send = (path: string, init: RequestInit) =>
    fetch(base + path, init).catch(() => {
      throw new CommandError(`nothing answers at ${base}: give the URL of Weir with --url or WEIR_URL`);
    });
  const asAdmin = async (method: string, path: string, body?: unknown): Promise<Response> => {
    if (token === undefined)
      throw new CommandError('an admin token is needed: set ADMIN_TOKEN, or give --token');
    const answer = await send(`/_weir/admin${path}`, {
      method,
      headers: {
        Authorization: `Bearer ${token}`,
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (!answer.ok) throw new CommandError(await wordsOf(base, answer));
    return answer;
  };
  return {
    url: base,
    async admin<T>(method: string, path: string, body?: unknown) {
      const answer = await asAdmin(method, path, body);
      return (await answer.json().catch(() => {
        throw new CommandError(`${base} does not answer as Weir does`);
      })) as T;
    },
    adminText: async (path) => (await asAdmin('GET', path)).text(),
    call: (path, headers) => send(path, { headers }),
  };
}

async function wordsOf(base: string, answer: Response): Promise<string> {
  const isProblem = answer.headers.get('Content-Type')?.startsWith('application/problem+json') === true;
  if (!isProblem) return `${base} answers ${answer.status}, and not as Weir does`;
  const { title = '', detail, errors = [] } = (await answer.json()) as Problem;
  const lines = errors.map(({ pointer, detail: what }) => `  ${pointer} ${what}`);
  return [`${answer.status} ${title}${detail === undefined ? '' : `. ${detail}`}`, ...lines].join('\n');
}
