// Weir inside somebody's own Worker: `app.use(weir())` limits what comes after it, and answers everything under
// /_weir. See docs/library.md.
import type { MiddlewareHandler } from 'hono';
import type { Bindings } from './bindings.ts';
import type { Caller } from './core/matching/caller.ts';
import { isolateOf } from './isolate.ts';

/** What lies behind Weir is the rest of the app: nothing is ever sent there. */
const NO_ORIGIN = { ORIGIN_URL: 'http://origin.invalid' };

export type LibraryBindings = Omit<Bindings, 'ORIGIN_URL'>;

export interface WeirVariables {
  /** Who sends the request, as far as it could be verified. */
  readonly weirCaller: Caller | undefined;
}

export function weir(): MiddlewareHandler<{ Bindings: LibraryBindings; Variables: WeirVariables }> {
  return async (c, next) => {
    const { app } = isolateOf(c.env as Bindings, NO_ORIGIN);
    const context = c.executionCtx as ExecutionContext;
    let isPassed = false;
    const answer = await app.fetch(c.req.raw, context, async (caller) => {
      isPassed = true;
      c.set('weirCaller', caller);
      await next();
      // A copy, because the headers of an answer that comes from elsewhere cannot be changed.
      return { kind: 'answered', response: new Response(c.res.body, c.res) };
    });
    // Hono keeps the answer of the handlers unless it is replaced; to a refusal it adds what others have set.
    if (isPassed) c.res = undefined;
    c.res = answer;
  };
}

/** For the queue of denials and usage, if that Worker has one. */
export async function queue(batch: MessageBatch, env: LibraryBindings): Promise<void> {
  await isolateOf(env as Bindings, NO_ORIGIN).consume(batch);
}

/** For the cron trigger of that Worker, once a minute. */
export async function scheduled(controller: ScheduledController, env: LibraryBindings): Promise<void> {
  await isolateOf(env as Bindings, NO_ORIGIN).runCron(controller.scheduledTime);
}
