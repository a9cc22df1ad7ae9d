// Workers KV for `workerd serve`, which asks a service over HTTP. This Worker keeps the values in its memory. Measured
// requests do not read them; publishing and cold starts do.

const values = new Map<string, string>();

export default {
  async fetch(request: Request): Promise<Response> {
    const key = decodeURIComponent(new URL(request.url).pathname.slice(1));
    if (request.method === 'PUT') {
      values.set(key, await request.text());
      return new Response(null);
    }
    const value = values.get(key);
    return value === undefined ? new Response('not found', { status: 404 }) : new Response(value);
  },
};
