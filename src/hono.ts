// Weir inside another Worker: `app.use(weir())` limits the handlers after it and answers everything under /_weir. See
// docs/library.md.
import type { MiddlewareHandler } from 'hono';
import type { LibraryOptions } from './config/config.ts';
import type { LibraryBindings } from './config/variables.ts';
import type { Caller } from './core/matching/caller.ts';
import type { QueuedBatch } from './telemetry/flush.ts';
import { createCodeIsolates, createLibrary, isolateWithPostgres } from './wiring/library.ts';

export type { TierInCode, WrittenRule } from './authoring/written-rule.ts';
export type { LibraryOptions, LibraryRegion } from './config/config.ts';
export type { LibraryBindings } from './config/variables.ts';
export type { Caller } from './core/matching/caller.ts';

export interface WeirVariables {
  /** The caller, as far as Weir could verify it. */
  readonly weirCaller: Caller | undefined;
}

/** What a handler finds in its context. */
interface HonoEnv<Env extends object> {
  Bindings: Env;
  Variables: WeirVariables;
}

/** With options, rules are in code and only Redis is needed. Without options, rules are in Postgres. */
export function weir<Env extends object = LibraryBindings>(
  options?: LibraryOptions<Env>,
): MiddlewareHandler<HonoEnv<Env>> {
  const library = options ? createLibrary(createCodeIsolates(options)) : withPostgres;
  return async (c, next) => {
    let isHandled = false;
    const handlers = async (caller: Caller | undefined) => {
      c.set('weirCaller', caller);
      await next();
      isHandled = true;
      return c.res;
    };
    const asked = { request: c.req.raw, context: c.executionCtx, handlers };
    const answer = await library((c.env ?? NO_BINDINGS) as Env & LibraryBindings, asked);
    // Hono adds the headers of an earlier answer to the new one. For a refusal that is right. An answer of the handlers
    // already has these headers, so it replaces the earlier answer.
    if (isHandled) c.res = undefined;
    c.res = answer;
  };
}

const withPostgres = createLibrary(isolateWithPostgres);

/** An app that is called in a test may have no bindings. */
const NO_BINDINGS = {};

/** For the queue of denials and usage, if that Worker has one. */
export async function queue(batch: QueuedBatch, env: LibraryBindings): Promise<void> {
  await isolateWithPostgres(env).consume(batch);
}

/** For the cron trigger of that Worker, once a minute. */
export async function scheduled(
  controller: { readonly scheduledTime: number },
  env: LibraryBindings,
): Promise<void> {
  await isolateWithPostgres(env).runCron(controller.scheduledTime);
}
