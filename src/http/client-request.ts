// A request as the client sent it. Each read of a property of `Request` is a call into the runtime that makes a new
// string or object, so the properties that several parts need are read once.

export interface ClientRequest {
  readonly raw: Request;
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
}

export const readClientRequest = (raw: Request): ClientRequest => ({
  raw,
  url: raw.url,
  method: raw.method,
  headers: raw.headers,
});
