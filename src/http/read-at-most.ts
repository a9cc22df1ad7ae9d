// Reads a body up to a bound. It counts the bytes that arrive, because nobody must send a length, or a true one.

/** Of a longer body, Weir discards this much if the client has stated its length. */
const MAX_DISCARDED_BYTES = 10 * 1024 * 1024;

/** Why a body was not read: it is longer than allowed, or its sender has left before its end. */
export type UnreadBody = 'too-long' | 'broken-off';

/**
 * Many clients and proxies read no answer before they have sent all they announced, and
 * lose it with the connection. So the rest of an announced body is discarded first, unless it is very long.
 */
export async function readAtMost(
  { body, headers }: Pick<Request, 'body' | 'headers'>,
  mostBytes: number,
): Promise<Uint8Array<ArrayBuffer> | UnreadBody> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = body?.getReader();
  try {
    for (;;) {
      const { done = true, value } = (await reader?.read()) ?? {};
      if (done || !value) break;
      size += value.length;
      if (size > mostBytes) {
        const announced = Number(headers.get('Content-Length') ?? Number.POSITIVE_INFINITY);
        if (announced > MAX_DISCARDED_BYTES) void reader?.cancel().catch(() => {});
        else while (!((await reader?.read())?.done ?? true));
        return 'too-long';
      }
      chunks.push(value);
    }
  } catch {
    return 'broken-off';
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}
