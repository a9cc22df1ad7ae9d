// Packs a long text for any store: gzip, in base64.

/** How many bytes become text at once. A function takes no more arguments than that. */
const AT_ONCE = 0x8000;

export async function packText(text: string): Promise<string> {
  const bytes = await through(new CompressionStream('gzip'), new TextEncoder().encode(text));
  let binary = '';
  for (let at = 0; at < bytes.length; at += AT_ONCE)
    binary += String.fromCharCode(...bytes.subarray(at, at + AT_ONCE));
  return btoa(binary);
}

/** Undefined if the text was not packed by `packText`. */
export async function unpackText(packed: string): Promise<string | undefined> {
  try {
    const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
    return new TextDecoder().decode(await through(new DecompressionStream('gzip'), bytes));
  } catch {
    return undefined;
  }
}

async function through(
  stream: CompressionStream | DecompressionStream,
  bytes: Uint8Array,
): Promise<Uint8Array> {
  const streamed = new Blob([bytes]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(streamed).arrayBuffer());
}
