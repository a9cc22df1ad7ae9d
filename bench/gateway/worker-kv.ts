// Workers KV for `workerd serve`, which asks a service over HTTP: values in the memory of this Worker. Requests that are
// measured do not read it; it is there for publishing the rules and for a cold start.

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
