// Weir inside another Worker: the rest of the app answers what Weir admits, and nothing is forwarded. Rules are in
// Postgres, or in the code of the app; with rules in code there is no Postgres, KV, admin route or telemetry. An entry for
// a framework is a few lines around `createLibrary`.
import type { ExecutionContext } from 'hono';
import type { RulesInCode } from '../authoring/written-rule.ts';
import {
  ConfigError,
  type LibraryOptions,
  parseCoreConfig,
  parseDeploymentConfig,
} from '../config/config.ts';
import type { LibraryBindings } from '../config/variables.ts';
import type { Caller } from '../core/matching/caller.ts';
import { hostOf } from '../core/matching/origin-routes.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import { ABSENT, type CallerDirectory } from '../core/ports/callers.ts';
import type { SnapshotSource } from '../core/ports/snapshot-source.ts';
import type { Telemetry } from '../core/ports/telemetry.ts';
import { nothingHere } from '../gateway/internal-routes.ts';
import { reportBug } from '../http/guard.ts';
import type { Origins } from '../proxy/origins.ts';
import {
  createConsoleLog,
  createCore,
  createIsolates,
  type Isolate,
  type IsolateParts,
  now,
} from './core.ts';
import { createDeployment, type DeploymentServices } from './deployment.ts';

/** A request to the app, and its handlers. */
export interface LibraryRequest {
  readonly request: Request;
  readonly context: ExecutionContext;
  /** Called at most once: if Weir admits the request. */
  readonly handlers: (caller: Caller | undefined) => Promise<Response>;
}

export type LibraryHandler<Env extends object> = (env: Env, asked: LibraryRequest) => Promise<Response>;

export interface LibraryParts extends IsolateParts {
  /** If present, requests must await it first. Rejects with a ConfigError if a rule is invalid. */
  readonly ready?: () => Promise<unknown>;
}

const log = createConsoleLog();

/** Answers requests: with a refusal, or with what the handlers answer. */
export function createLibrary<Env extends object>(
  isolateOf: (env: Env) => Isolate<LibraryParts>,
): LibraryHandler<Env> {
  return async (env, { request, context, handlers }) => {
    let isHandled = false;
    let answered: Response | undefined;
    const handle = async (caller: Caller | undefined) => {
      isHandled = true;
      answered = await handlers(caller);
      return answered;
    };
    const next = async (caller: Caller | undefined) =>
      ({ kind: 'answered', response: copyOf(await handle(caller)) }) as const;
    try {
      const isolate = isolateOf(env);
      await isolate.ready?.();
      return await isolate.app.fetch(request, context, next);
    } catch (error) {
      // An invalid configuration, or an error of the handlers, is for the app to answer. A bug in Weir is not.
      if (error instanceof ConfigError || (isHandled && !answered)) throw error;
      reportBug(log, error);
      return answered ?? handle(undefined);
    }
  };
}

/** A copy, because headers of a fetched response are immutable. */
function copyOf(answer: Response): Response {
  try {
    return new Response(answer.body, answer);
  } catch (error) {
    reportBug(log, error);
    return answer;
  }
}

/** The isolates of all apps whose rules are in Postgres. */
export const isolateWithPostgres: (env: LibraryBindings) => Isolate<DeploymentServices & LibraryParts> =
  createIsolates((env: LibraryBindings) => {
    const deployment = createDeployment(parseDeploymentConfig(env));
    const { services } = deployment;
    return { ...deployment, services: { ...services, origins: appBehind(services.snapshots) } };
  });

/** The isolates of one app whose rules are in its code. */
export const createCodeIsolates = <Env extends object>({ regions, ...rules }: LibraryOptions<Env>) =>
  createIsolates((env: Env): LibraryParts => {
    const config = parseCoreConfig(env, typeof regions === 'function' ? regions(env) : regions);
    const { compile, ...snapshots } = createCodeSource(rules);
    const core = createCore({ config, log: createConsoleLog(), snapshots, callers: NOBODY });
    return {
      ready: compile,
      services: { ...core, ...WITHOUT_POSTGRES, origins: appBehind(snapshots) },
    };
  });

/** The rest of the app takes the place of origins. */
const appBehind = (snapshots: Pick<SnapshotSource, 'current'>): Origins => ({
  routeOf: (url, matchPath) => snapshots.current()?.routes?.find(hostOf(url), matchPath),
  isZone: () => false,
  refuseLoop: async () => undefined,
  forward: () => Promise.reject(new Error('the rest of the app answers, and nothing is forwarded')),
  report: () => [],
});

/** Without Postgres there are no API keys, and Weir knows a user only by the claims of the token. */
const NOBODY: CallerDirectory = { ofApiKey: async () => ABSENT, ofUser: async () => ABSENT };

const SILENT: Telemetry = {
  clockMs: () => 0,
  decided() {},
  checked() {},
  corrected() {},
  answered() {},
  flush() {},
};

const nothing = async () => nothingHere();
const WITHOUT_POSTGRES = {
  telemetry: SILENT,
  admin: nothing,
  adminRefusal: nothing,
  page: nothing,
  metrics: nothing,
  pingDatabase: undefined,
};

/** Rules in code change only with the code, so there is nothing to confirm. */
function createCodeSource(rules: RulesInCode): SnapshotSource & { compile(): Promise<Snapshot> } {
  let compiled: Snapshot | undefined;
  const compile = async () => {
    if (compiled) return compiled;
    const { compileCode } = await import('./compile-rules.ts');
    compiled = await compileCode(rules, now());
    return compiled;
  };
  return {
    compile,
    start: compile,
    current: () => compiled,
    announced: () => '',
    probe: () => undefined,
    confirm() {},
    fail() {},
    isConfirmed: () => true,
    load: async () => false,
  };
}
