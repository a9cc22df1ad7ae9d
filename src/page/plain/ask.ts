// Asks the admin route for a view that the Worker renders. It uses the credentials of the person, as the page's script
// does. If a part fails, the view shows the failure in its place, and all other parts.
export type Told<T> =
  | { readonly kind: 'told'; readonly value: T }
  | { readonly kind: 'failed'; readonly trouble: string };

export type Ask = <T>(path: string, query?: Query) => Promise<Told<T>>;

type Query = Readonly<Record<string, string | undefined>>;

export interface AskOptions {
  readonly admin: (request: Request) => Promise<Response>;
  readonly request: Request;
}

/** The headers that identify the person. */
const CREDENTIALS = ['Cookie', 'Authorization', 'Cf-Access-Jwt-Assertion', 'CF-Connecting-IP'];

export function createAsk({ admin, request }: AskOptions): Ask {
  const headers = new Headers();
  for (const name of CREDENTIALS) {
    const value = request.headers.get(name);
    if (value !== null) headers.set(name, value);
  }
  return async (path, query = {}) => {
    const url = new URL(`/_weir/admin${path}`, request.url);
    for (const [name, value] of Object.entries(query)) if (value) url.searchParams.set(name, value);
    return read(admin(new Request(url, { headers })));
  };
}

export async function read<T>(answering: Promise<Response>): Promise<Told<T>> {
  const answer = await answering;
  // Only a problem has a title. Everything else is an answer, whatever its status.
  const body = (await answer.json()) as T & { title?: string; detail?: string };
  if (answer.ok || body.title === undefined) return { kind: 'told', value: body };
  return { kind: 'failed', trouble: [body.title, body.detail].filter(Boolean).join('. ') };
}
