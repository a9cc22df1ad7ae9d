// Reads a body up to a bound. It counts the bytes that arrive, because nobody must send a length, or a true one.

/** Undefined if the body is longer. The rest is then not read. */
export async function readAtMost(
  body: ReadableStream<Uint8Array> | null,
  mostBytes: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = body?.getReader();
  for (;;) {
    const { done = true, value } = (await reader?.read()) ?? {};
    if (done || !value) break;
    size += value.length;
    if (size > mostBytes) {
      // Not awaited: the client need not have stopped sending when it gets the answer.
      void reader?.cancel().catch(() => {});
      return undefined;
    }
    chunks.push(value);
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}
