// A proxy with Weir's duties and no limit. Any gateway with these duties costs at least this much.
import { askOrigin, toClient } from './duties.ts';
import type { ProxyEnv } from './to-origin.ts';

export default {
  async fetch(request: Request, env: ProxyEnv): Promise<Response> {
    return toClient(await askOrigin(request, env), () => {});
  },
};
