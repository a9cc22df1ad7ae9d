// Streams a request's body to the origin. The runtime pumps it, not JavaScript. Weir only notes when the origin has all
// of it: from then on, the client waits for the origin, and the origin's timeout starts.

interface Passage {
  readonly readable: ReadableStream;
  readonly writable: WritableStream;
}

// Declared here, because tests on Node load this file and only the Workers runtime has the class.
declare const FixedLengthStream: new (length: bigint) => Passage;
declare const IdentityTransformStream: new () => Passage;

export function passBody(body: ReadableStream, length: string | null, onPassed: () => void): ReadableStream {
  // Keeps the length, because without one the origin would get the body chunked.
  const passage = length === null ? new IdentityTransformStream() : new FixedLengthStream(BigInt(length));
  // If the client breaks off, the readable side fails and so does fetch. The caller of fetch handles that.
  body.pipeTo(passage.writable).then(onPassed, () => {});
  return passage.readable;
}
