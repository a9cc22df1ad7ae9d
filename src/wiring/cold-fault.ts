// What happens to a request if a bug keeps the isolate from starting: it goes to the default origin, uncounted.
import type { ExecutionContext } from 'hono';
import { parseWorkerConfig } from '../config/config.ts';
import type { Bindings } from '../config/variables.ts';
import { isForWeir, passPlainly } from '../gateway/app.ts';
import { reportBug } from '../http/guard.ts';
import { createConsoleLog, now } from './core.ts';
import { createOriginsOf } from './isolate.ts';

const log = createConsoleLog();

/** The next request tries to start the isolate again. If not even this works, the platform may pass the request on. */
export async function passWithoutIsolate(
  error: unknown,
  request: Request,
  env: Bindings,
  context: ExecutionContext,
): Promise<Response> {
  reportBug(log, error);
  try {
    const config = parseWorkerConfig(env);
    const origins = createOriginsOf(config, { now, log, snapshots: { current: () => undefined } });
    return await passPlainly({ log, origins, adminHost: config.ADMIN_HOST }, request);
  } catch (another) {
    reportBug(log, another);
    // A body can be sent once. If it was not sent, the zone's own origin can still get it.
    const isZone = env.ORIGIN_URL === 'pass' && !isForWeir(request.url, env.ADMIN_HOST);
    if (isZone && !request.bodyUsed) context.passThroughOnException();
    throw another;
  }
}
