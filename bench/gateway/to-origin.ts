// The proxy of all candidates but Weir. It is as short as possible, and touches no header.

export interface ProxyEnv {
  readonly ORIGIN_URL: string;
}

export function toOrigin(request: Request, { ORIGIN_URL }: ProxyEnv): Promise<Response> {
  const { pathname, search } = new URL(request.url);
  return fetch(`${ORIGIN_URL}${pathname}${search}`, request);
}
