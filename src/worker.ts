// The entry of the Worker: requests, the cron run, and the queue of denials and usage.
import type { ExecutionContext } from 'hono';
import { ConfigError } from './config/config.ts';
import type { Bindings } from './config/variables.ts';
import { notConfigured } from './gateway/refusals.ts';
import type { QueuedBatch } from './telemetry/flush.ts';
import { isolateOf } from './wiring/isolate.ts';

export type { CheckAnswer, CheckCall, CheckInput, CheckOutcome, SettleAnswer } from './checks/call.ts';
export type { Bindings } from './config/variables.ts';
export { Weir } from './rpc.ts';

/** The handlers that the Workers runtime calls. */
export interface WeirWorker {
  fetch(request: Request, env: Bindings, context: ExecutionContext): Response | Promise<Response>;
  scheduled(controller: { readonly scheduledTime: number }, env: Bindings): Promise<void>;
  queue(batch: QueuedBatch, env: Bindings): Promise<void>;
}

const worker: WeirWorker = {
  fetch(request, env, context) {
    try {
      return isolateOf(env).app.fetch(request, context);
    } catch (error) {
      return error instanceof ConfigError
        ? notConfigured(error)
        : passWithoutIsolate(error, request, env, context);
    }
  },

  async scheduled({ scheduledTime }, env) {
    await isolateOf(env).runCron(scheduledTime);
  },

  async queue(batch, env) {
    await isolateOf(env).consume(batch);
  },
};

/** Loaded when needed, because that should be never. */
const passWithoutIsolate = async (
  ...failed: Parameters<ColdFault['passWithoutIsolate']>
): Promise<Response> => (await import('./wiring/cold-fault.ts')).passWithoutIsolate(...failed);

type ColdFault = typeof import('./wiring/cold-fault.ts');

export default worker;
