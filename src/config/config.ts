// Reads variables and bindings once per isolate. Each entry reads only what it needs: Weir inside another Worker forwards
// nothing, and with rules in code it has no Postgres. Code uses a variable by its own name.
import type { RulesInCode } from '../authoring/written-rule.ts';
import type { OriginPolicy, ServiceBinding } from '../core/matching/origin-routes.ts';
import { type FieldError, type Fields, type ObjectOf, readFields, textOfErrors } from '../core/shape.ts';
import { serviceOf, type Variables, variablesOf } from './variables.ts';

/** What every Weir needs, also one with rules in code. */
export type CoreConfig = ObjectOf<Variables['core']>;
/** With rules in Postgres. */
export type DeploymentConfig = CoreConfig &
  ObjectOf<Variables['bindings']> &
  ObjectOf<Variables['deployment']> & {
    /** Which origins routes may lead to. */
    readonly origins: OriginPolicy;
    /** The Worker behind a service binding. */
    readonly service: (name: string) => ServiceBinding | undefined;
  };
/** Of a Weir that forwards requests to origins. */
export type WorkerConfig = DeploymentConfig & ObjectOf<Variables['forwarding']>;

type Region = CoreConfig['REGIONS'][number];
/** One Redis database, reached over Upstash's REST protocol: see `regionsShape` for the defaults. */
export type LibraryRegion = Pick<Region, 'url' | 'token'> & Partial<Region>;

/** What an app says that has Weir inside it, with rules in its code. */
export interface LibraryOptions<Env extends object> extends RulesInCode {
  /** Or a function of the Worker's bindings, to read secrets. */
  readonly regions: readonly LibraryRegion[] | ((env: Env) => readonly LibraryRegion[]);
}

export class ConfigError extends Error {
  readonly errors: readonly FieldError[];

  constructor(errors: readonly FieldError[]) {
    super(`Weir is not configured: ${textOfErrors(errors)}`);
    this.name = 'ConfigError';
    this.errors = errors;
  }
}

/** The code lists the regions. */
export function parseCoreConfig(env: object, regions: unknown): CoreConfig {
  const variables = variablesOf(env);
  const REGIONS: typeof variables.regions = (_, __, errors) => variables.regions(regions, 'regions', errors);
  return parse({ ...variables.core, REGIONS }, env);
}

export function parseDeploymentConfig(env: object): DeploymentConfig {
  const { core, bindings, deployment, origins } = variablesOf(env, { needsAdmin: true });
  const service = (name: string) => serviceOf(env, name);
  return { ...parse({ ...core, ...bindings, ...deployment }, env), origins, service };
}

export function parseWorkerConfig(env: object): WorkerConfig {
  const { core, bindings, deployment, forwarding, origins } = variablesOf(env, { needsAdmin: true });
  const service = (name: string) => serviceOf(env, name);
  return { ...parse({ ...core, ...bindings, ...deployment, ...forwarding }, env), origins, service };
}

/** Throws a ConfigError that names every bad variable. */
function parse<V extends Fields>(variables: V, env: object): ObjectOf<V> {
  const errors: FieldError[] = [];
  const read = readFields(variables, env, '', errors);
  if (errors.length > 0) throw new ConfigError(errors);
  return read as ObjectOf<V>;
}
