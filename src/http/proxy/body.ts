// A request's body on its way to the origin. It is pumped by the runtime, never through JavaScript; what is watched is
// when the origin has all of it, because only then is it the origin that the client waits for.

interface Passage {
  readonly readable: ReadableStream;
  readonly writable: WritableStream;
}

// Of the Workers runtime alone, and named like this because tests on Node read this file, too.
declare const FixedLengthStream: new (length: bigint) => Passage;
declare const IdentityTransformStream: new () => Passage;

export function passBody(body: ReadableStream, length: string | null, onPassed: () => void): ReadableStream {
  // Of a known length, or the origin would get it chunked.
  const passage = length === null ? new IdentityTransformStream() : new FixedLengthStream(BigInt(length));
  // A client that breaks off breaks the readable side too: fetch fails, and that is where it is handled.
  body.pipeTo(passage.writable).then(onPassed, () => {});
  return passage.readable;
}
