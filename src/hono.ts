// Weir inside another Worker: `app.use(weir())` limits the handlers after it and answers everything under /_weir. See
// docs/library.md.
import type { Context, MiddlewareHandler } from 'hono';
import type { RequestWeir } from './checks/call.ts';
import type { LibraryOptions } from './config/config.ts';
import type { LibraryBindings } from './config/variables.ts';
import type { Caller, CallerAnswer } from './core/matching/caller.ts';
import type { QueuedBatch } from './telemetry/flush.ts';
import { isolateWithPostgres, libraryOf } from './wiring/library.ts';

export type { TierInCode, WrittenRule } from './authoring/written-rule.ts';
export type {
  CheckAnswer,
  CheckCall,
  CheckInput,
  CheckOutcome,
  CodeChecks,
  RequestWeir,
  SettleAnswer,
} from './checks/call.ts';
export type { LibraryOptions, LibraryRegion } from './config/config.ts';
export type { LibraryBindings } from './config/variables.ts';
export type { AppCaller, Caller, CallerAnswer } from './core/matching/caller.ts';

export interface WeirVariables {
  /** The caller, as far as Weir could verify it. */
  readonly weirCaller: Caller | undefined;
  /** Checks in code, for the caller of this request or for others. */
  readonly weir: RequestWeir;
}

/** What a handler finds in its context. */
interface HonoEnv<Env extends object> {
  Bindings: Env;
  Variables: WeirVariables;
}

/** Who calls, if the app authenticates its callers itself. */
export interface CallerOption<Bindings extends object, Variables extends object> {
  /**
   * Called once for each request that this middleware limits, before Weir decides. Undefined: the app does not know, so
   * the request counts as if there were no such option. The same happens after an error, which is logged as
   * `caller-failed`.
   */
  readonly caller?: (c: Context<{ Bindings: Bindings; Variables: Variables }>) => CallerAnswer;
}

export type WeirOptions<Env extends object, Variables extends object> = CallerOption<Env, Variables> &
  (LibraryOptions<Env> | { readonly regions?: never; readonly rules?: never });

/** With regions and rules, rules are in code and only Redis is needed. Without them, rules are in Postgres. */
export function weir<
  Env extends object = LibraryBindings,
  Variables extends object = Readonly<Record<string, unknown>>,
>(options: WeirOptions<Env, Variables> = {}): MiddlewareHandler<HonoEnv<Env>> {
  const library = libraryOf(options);
  const { caller } = options;
  return async (c, next) => {
    let isHandled = false;
    const handlers = async (found: RequestWeir) => {
      c.set('weir', found);
      c.set('weirCaller', found.caller);
      await next();
      isHandled = true;
      return c.res;
    };
    // The variables of the app are those that it names in its types.
    const whoCalls = caller && (() => caller(c as never));
    const asked = { request: c.req.raw, context: c.executionCtx, handlers, whoCalls };
    const answer = await library.answer((c.env ?? NO_BINDINGS) as Env, asked);
    // Hono adds the headers of an earlier answer to the new one. For a refusal that is right. An answer of the handlers
    // already has these headers, so it replaces the earlier answer.
    if (isHandled) c.res = undefined;
    c.res = answer;
  };
}

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
