// Asks the admin route for a view that the Worker renders: with the credentials of the person who looks, as the page's
// script would. A part that fails says so in its place, and the others are shown.
export type Told<T> =
  | { readonly kind: 'told'; readonly value: T }
  | { readonly kind: 'failed'; readonly trouble: string };

export type Ask = <T>(path: string, query?: Query) => Promise<Told<T>>;

type Query = Readonly<Record<string, string | undefined>>;

export interface AskOptions {
  readonly admin: (request: Request) => Promise<Response>;
  readonly request: Request;
}

/** What tells who asks. */
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
  // Health that is not good is still an answer: it comes with 503.
  const body = (await answer.json()) as T & { title?: string; detail?: string };
  if (answer.ok || body.title === undefined) return { kind: 'told', value: body };
  return { kind: 'failed', trouble: [body.title, body.detail].filter(Boolean).join('. ') };
}
