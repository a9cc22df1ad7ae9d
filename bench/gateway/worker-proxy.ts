// A proxy and nothing else: to the origin, and streamed back.
import { type ProxyEnv, toOrigin } from './to-origin.ts';

export default {
  fetch: (request: Request, env: ProxyEnv) => toOrigin(request, env),
};
