// Weir inside another Worker: the rest of the app answers what Weir admits, and nothing is forwarded. Rules are in
// Postgres, or in the code of the app; with rules in code there is no Postgres, KV, admin route or telemetry. An entry for
// a framework is a few lines around `libraryOf`.
import type { ExecutionContext } from 'hono';
import type { RulesInCode } from '../authoring/written-rule.ts';
import type { CodeChecks, RequestWeir } from '../checks/call.ts';
import type { CheckContext, Checks } from '../checks/checks.ts';
import {
  ConfigError,
  type LibraryOptions,
  parseCoreConfig,
  parseDeploymentConfig,
} from '../config/config.ts';
import type { LibraryBindings } from '../config/variables.ts';
import { type Caller, CallerError } from '../core/matching/caller.ts';
import { hostOf } from '../core/matching/origin-routes.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import { ABSENT, type CallerDirectory, type NamedCaller } from '../core/ports/callers.ts';
import type { SnapshotSource } from '../core/ports/snapshot-source.ts';
import type { Telemetry } from '../core/ports/telemetry.ts';
import { nothingHere } from '../gateway/internal-routes.ts';
import type { AppBehind, Services } from '../gateway/services.ts';
import { type ClientRequest, readClientRequest, reportBug, runAfterResponse } from '../http/guard.ts';
import { addressOf } from '../identity/identity.ts';
import { nameIn, namesIn } from '../identity/jwt.ts';
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
  readonly handlers: (weir: RequestWeir, setHeaders: (headers: Headers) => void) => Promise<Response>;
  /** Asks the app who calls. */
  readonly whoCalls?: (() => unknown) | undefined;
}

export interface WeirLibrary<Env extends object> {
  /** A refusal, or what the handlers answer. */
  answer(env: Env, asked: LibraryRequest): Promise<Response>;
  checks(env: Env, from: CodeContext): CodeChecks;
}

export interface LibraryParts extends IsolateParts {
  /** If present, requests must await it first. Rejects with a ConfigError if a rule is invalid. */
  readonly ready?: () => Promise<unknown>;
}

const log = createConsoleLog();

function createLibrary<Env extends object>(isolateOf: (env: Env) => Isolate<LibraryParts>): WeirLibrary<Env> {
  const checks: WeirLibrary<Env>['checks'] = (env, from) => createCodeChecks(() => isolateOf(env), from);
  const answer: WeirLibrary<Env>['answer'] = async (env, { request, context, handlers, whoCalls }) => {
    let isHandled = false;
    let answered: Response | undefined;
    const handle = async (caller?: Caller, setHeaders = (_: Headers) => {}) => {
      isHandled = true;
      answered = await handlers({ caller, ...checks(env, { request, context, caller }) }, setHeaders);
      return answered;
    };
    const next: Required<AppBehind>['next'] = async (...admitted) => ({
      kind: 'answered',
      response: copyOf(await handle(...admitted)),
    });
    try {
      const isolate = isolateOf(env);
      await isolate.ready?.();
      const named = whoCalls && ((sent: ClientRequest) => withNamed(isolate.services, sent, whoCalls));
      return await isolate.app.fetch(request, context, { next, named });
    } catch (error) {
      // An invalid configuration, or an error of the handlers, is for the app to answer. A bug in Weir is not.
      if (error instanceof ConfigError || (isHandled && !answered)) throw error;
      reportBug(log, error);
      return answered ?? handle();
    }
  };
  return { answer, checks };
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

// Who calls, as the app says.

/** An app that cannot say who calls, or says it wrongly, must not keep the request from being counted. */
async function withNamed(
  { snapshots, identity, log, now }: Services,
  sent: ClientRequest,
  whoCalls: () => unknown,
): Promise<ClientRequest> {
  // Whoever calls from there is denied, so the app is spared the question.
  if (snapshots.current()?.listed(addressOf(sent, identity), now()) === 'deny') return sent;
  try {
    const said = await whoCalls();
    return said === undefined || said === null ? sent : { ...sent, named: readAppCaller(said) };
  } catch (error) {
    log.error('caller-failed', error);
    return sent;
  }
}

const NAMES = ['userId', 'apiKeyId', 'tenantId', 'tier'] as const;

/** Ids from an app have the same bounds as those in a token. */
export function readAppCaller(said: unknown): NamedCaller {
  if (typeof said !== 'object' || said === null) throw new CallerError('the caller must be an object');
  const given = said as Readonly<Record<string, unknown>>;
  const [userId, apiKeyId, tenantId, tier] = NAMES.map((field) => {
    const isMissing = given[field] === undefined || given[field] === null;
    const name = isMissing ? undefined : nameIn(given, field);
    if (name === undefined && !isMissing) throw new CallerError(`${field} ${NOT_A_NAME}`);
    return name;
  });
  const { claims } = given;
  return {
    userId,
    apiKeyId: apiKeyId?.toLowerCase(),
    tenantId,
    tier,
    claims: typeof claims === 'object' && claims ? namesIn({ ...claims }) : undefined,
    needsRow: userId !== undefined && (given['tenantId'] === undefined || given['tier'] === undefined),
  };
}

const NOT_A_NAME =
  'must be a text of 1 to 256 characters, without control characters, blanks at its ends and halves of surrogate pairs';

// Checks in code.

export interface CodeContext {
  readonly context: ExecutionContext;
  /** The request that the code answers. */
  readonly request?: Request;
  readonly caller?: Caller | undefined;
}

function createCodeChecks(
  isolateOf: () => Isolate<LibraryParts>,
  { context, request, caller }: CodeContext,
): CodeChecks {
  const run = async <T>(call: (checks: Checks, asked: CheckContext) => Promise<T>): Promise<T> => {
    const isolate = isolateOf();
    await isolate.ready?.();
    const { services } = isolate;
    const { serviceChecks } = await import('../gateway/internal-handlers.ts');
    const afterResponse = (work: Promise<unknown>) =>
      runAfterResponse(services.log, { executionCtx: context }, work);
    const answered = call(serviceChecks(services), {
      regions: services.regionsOf(request) ?? services.regions,
      afterResponse,
      // A request that Weir could not decide is known by its address alone.
      caller: caller ?? (request && addressOf(readClientRequest(request), services.identity)),
    });
    // The charge must be noted even if the client leaves.
    afterResponse(answered.catch(() => {}));
    return answered;
  };
  return {
    check: (call) => run((checks, asked) => checks.check(call, asked)),
    refund: (id) => run((checks, asked) => checks.refund({ id }, asked)),
    settle: (id, cost) => run((checks, asked) => checks.settle({ id, cost }, asked)),
  };
}

/** The isolates of all apps whose rules are in Postgres. */
export const isolateWithPostgres: (env: LibraryBindings) => Isolate<DeploymentServices & LibraryParts> =
  createIsolates((env: LibraryBindings) => {
    const deployment = createDeployment(parseDeploymentConfig(env));
    const { services } = deployment;
    return { ...deployment, services: { ...services, origins: appBehind(services.snapshots) } };
  });

/** The isolates of one app whose rules are in its code. */
const createCodeIsolates = <Env extends object>({ regions, rules, tiers }: LibraryOptions<Env>) =>
  createIsolates((env: Env): LibraryParts => {
    const config = parseCoreConfig(env, typeof regions === 'function' ? regions(env) : regions);
    const { compile, ...snapshots } = createCodeSource({ rules, tiers });
    const core = createCore({ config, log: createConsoleLog(), snapshots, callers: NOBODY });
    return {
      ready: compile,
      services: { ...core, ...WITHOUT_POSTGRES, origins: appBehind(snapshots) },
    };
  });

const withPostgres = createLibrary(isolateWithPostgres);

/** With rules in the code, or without: then all apps share one Weir, and it reads from `Env` what it needs. */
export const libraryOf = <Env extends object>({
  regions,
  rules,
  tiers,
}: Partial<LibraryOptions<Env>>): WeirLibrary<Env> =>
  regions && rules
    ? createLibrary(createCodeIsolates({ regions, rules, tiers }))
    : (withPostgres as unknown as WeirLibrary<Env>);

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
