// A Weir whose telemetry can be turned off while it runs, by a PUT to any path that ends with `on` or `off`. No other
// request of the bench is a PUT.
import type { ExecutionContext } from 'hono';
import weir, { type Bindings } from '../../src/worker.ts';
import { telling } from './switch.ts';

export { Weir } from '../../src/worker.ts';

export default {
  ...weir,
  async fetch(request: Request, env: Bindings, context: ExecutionContext): Promise<Response> {
    if (request.method !== 'PUT') return weir.fetch(request, env, context);
    telling.isOn = request.url.endsWith('on');
    return new Response(null, { status: 204 });
  },
};
