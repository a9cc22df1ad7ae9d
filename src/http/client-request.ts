// A request as the client sent it. Each read of a property of `Request` is a call into the runtime that makes a new
// string or object, so the properties that several parts need are read once.

export interface ClientRequest {
  readonly raw: Request;
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  /** `CF-Connecting-IP`: the address that Cloudflare names. */
  readonly connectingIp: string | null;
}

export function readClientRequest(raw: Request): ClientRequest {
  const { url, method, headers } = raw;
  return { raw, url, method, headers, connectingIp: headers.get('CF-Connecting-IP') };
}
