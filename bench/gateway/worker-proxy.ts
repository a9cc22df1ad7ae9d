// A proxy and nothing else: it streams to the origin and back.
import { type ProxyEnv, toOrigin } from './to-origin.ts';

export default {
  fetch: (request: Request, env: ProxyEnv) => toOrigin(request, env),
};
