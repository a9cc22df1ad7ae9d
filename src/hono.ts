// Weir inside another Worker: `app.use(weir())` limits the handlers after it and answers everything under /_weir. See
// docs/library.md.
import type { MiddlewareHandler } from 'hono';
import type { RulesInCode } from './authoring/written-rule.ts';
import type { Bindings } from './config/bindings.ts';
import { ConfigError } from './config/config.ts';
import type { Caller } from './core/matching/caller.ts';
import { reportBug } from './http/guard.ts';
import type { ProxyResult } from './proxy/proxy.ts';
import type { QueuedBatch } from './telemetry/store.ts';
import { createConsoleLog, createIsolateServices, createIsolates } from './wiring/isolate.ts';
import { createCodeServices } from './wiring/rules-in-code.ts';

export type { TierInCode, WrittenRule } from './authoring/written-rule.ts';
export type { Caller } from './core/matching/caller.ts';

/** A placeholder: the rest of the app is the origin, so nothing is ever sent there. */
const NO_ORIGIN = { ORIGIN_URL: 'https://origin.invalid' };

export type LibraryBindings = Omit<Bindings, 'ORIGIN_URL'>;

export interface WeirVariables {
  /** The caller, as far as Weir could verify it. */
  readonly weirCaller: Caller | undefined;
}

/** One Redis database, reached over Upstash's REST protocol. */
export interface LibraryRegion {
  readonly url: string;
  readonly token: string;
  /** `main` if left out. Several regions need names of their own. */
  readonly name?: string;
  /** The weight of the region when limits are split; 1 if left out. */
  readonly share?: number;
  /** The location. Required if there are several regions. */
  readonly latitude?: number;
  readonly longitude?: number;
  readonly cluster?: boolean;
  readonly serves?: readonly string[];
}

export interface LibraryOptions<Env extends object> extends RulesInCode {
  /** Or a function of the Worker's bindings, to read secrets. */
  readonly regions: readonly LibraryRegion[] | ((env: Env) => readonly LibraryRegion[]);
}

/** What a handler finds in its context. */
interface HonoEnv<Env extends object> {
  Bindings: Env;
  Variables: WeirVariables;
}

const withPostgres = createIsolates((env) => createIsolateServices({ ...NO_ORIGIN, ...env }));

/** With options, rules are in code and only Redis is needed. Without options, rules are in Postgres. */
export function weir<Env extends object = LibraryBindings>(
  options?: LibraryOptions<Env>,
): MiddlewareHandler<HonoEnv<Env>> {
  const isolateOf = options ? createIsolates((env) => servicesInCode(env, options)) : withPostgres;
  return async (c, next) => {
    // An app that is called in a test may have no bindings.
    const env: object = c.env ?? NO_ORIGIN;
    const { executionCtx } = c;
    let origin = 'unasked' as 'unasked' | 'answered' | 'failed';
    const pass = async (caller: Caller | undefined): Promise<ProxyResult> => {
      origin = 'failed';
      c.set('weirCaller', caller);
      await next();
      origin = 'answered';
      return { kind: 'answered', response: copyOf(c.res) };
    };
    try {
      const isolate = isolateOf(env as Bindings);
      await isolate.ready?.();
      const answer = await isolate.app.fetch(c.req.raw, executionCtx, pass);
      // Hono adds the headers of an earlier answer to the new one. For a refusal that is right. An answer of the
      // handlers already has these headers, so it replaces the earlier answer.
      if (origin === 'answered') c.res = undefined;
      c.res = answer;
    } catch (error) {
      // An invalid configuration, or an error of the handlers, is for the app to answer. A bug in Weir is not.
      if (error instanceof ConfigError || origin === 'failed') throw error;
      reportBug(log, error);
      if (origin === 'unasked') await next();
    }
  };
}

const log = createConsoleLog();

/** A copy, because headers of a fetched response are immutable. */
function copyOf(answer: Response): Response {
  try {
    return new Response(answer.body, answer);
  } catch (error) {
    reportBug(log, error);
    return answer;
  }
}

function servicesInCode<Env extends object>(env: object, { regions, ...said }: LibraryOptions<Env>) {
  const listed = typeof regions === 'function' ? regions(env as Env) : regions;
  const complete = listed.map((region) => ({ ...(listed.length === 1 && ANYWHERE), share: 1, ...region }));
  return createCodeServices({ ...NO_ORIGIN, ...env, REGIONS: JSON.stringify(complete) }, said);
}

/** The location of a single region does not matter. */
const ANYWHERE = { name: 'main', latitude: 0, longitude: 0 };

/** For the queue of denials and usage, if that Worker has one. */
export async function queue(batch: QueuedBatch, env: LibraryBindings): Promise<void> {
  await withPostgres(env as Bindings).consume(batch);
}

/** For the cron trigger of that Worker, once a minute. */
export async function scheduled(
  controller: { readonly scheduledTime: number },
  env: LibraryBindings,
): Promise<void> {
  await withPostgres(env as Bindings).runCron(controller.scheduledTime);
}
