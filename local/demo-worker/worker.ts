// The second demo origin: a Worker, bound to Weir as DEMO, so that the route origin `service:DEMO` can be tried. It
// tells what it was asked; `?status=503` makes it answer so, `?gzip=1` encodes its answer, `?delay=200` makes it wait.

export default {
  async fetch(request: Request): Promise<Response> {
    const { href, searchParams } = new URL(request.url);
    const delayMs = Number(searchParams.get('delay') ?? 0);
    if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, Math.min(delayMs, 60_000)));
    const body = JSON.stringify({
      origin: 'the demo Worker',
      method: request.method,
      url: href,
      headers: [...request.headers],
      body: await request.text(),
    });
    const status = Number(searchParams.get('status') ?? 200);
    if (!searchParams.has('gzip')) return toJson(body, { status });
    const packed = new Response(body).body?.pipeThrough(new CompressionStream('gzip')) ?? null;
    return toJson(packed, { status, isPacked: true });
  },
};

interface Answer {
  readonly status: number;
  /** The body is encoded already. */
  readonly isPacked?: boolean;
}

function toJson(body: string | ReadableStream | null, { status, isPacked = false }: Answer): Response {
  const headers = { 'Content-Type': 'application/json', ...(isPacked && { 'Content-Encoding': 'gzip' }) };
  return new Response(body, { status, headers, ...(isPacked && { encodeBody: 'manual' }) } as ResponseInit);
}
