// The second demo origin: a Worker that Weir reaches by the origin `service:DEMO`. It answers with the request that it
// got. `?status=503` sets its status, `?gzip=1` encodes its answer, and `?delay=200` makes it wait.

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
  /** Whether the body is encoded already. */
  readonly isPacked?: boolean;
}

function toJson(body: string | ReadableStream | null, { status, isPacked = false }: Answer): Response {
  const headers = { 'Content-Type': 'application/json', ...(isPacked && { 'Content-Encoding': 'gzip' }) };
  return new Response(body, { status, headers, ...(isPacked && { encodeBody: 'manual' }) } as ResponseInit);
}
