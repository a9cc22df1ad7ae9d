// What happens to a request if a bug keeps the isolate from starting: it goes to the default origin, uncounted.
import type { ExecutionContext } from 'hono';
import type { Bindings } from '../config/bindings.ts';
import { parseConfig } from '../config/config.ts';
import { isForWeir, passPlainly } from '../gateway/app.ts';
import { reportBug } from '../http/guard.ts';
import { createConsoleLog, createOriginsOf } from './isolate.ts';

const now = () => Date.now();
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
    const config = parseConfig(env);
    const origins = createOriginsOf(config, { env, now, log, snapshots: { current: () => undefined } });
    return await passPlainly({ log, origins, adminHost: config.adminHost }, request);
  } catch (another) {
    reportBug(log, another);
    // A body can be sent once. If it was not sent, the zone's own origin can still get it.
    const isZone = env.ORIGIN_URL === 'pass' && !isForWeir(request.url, env.ADMIN_HOST);
    if (isZone && !request.bodyUsed) context.passThroughOnException();
    throw another;
  }
}
