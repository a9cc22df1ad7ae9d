// All parts of Weir, made once per isolate for each set of bindings.
import type { Bindings } from './bindings.ts';
import { type App, createApp } from './http/app.ts';
import { createParts, type Parts } from './services.ts';

export interface Isolate extends Parts {
  readonly app: App;
}

const isolates = new WeakMap<object, Isolate>();
/** Of the request before: mostly it is the same. */
let latest: { readonly env: object; readonly isolate: Isolate } | undefined;

/** Throws a ConfigError that names every variable that is missing or wrong. */
export function isolateOf(env: Bindings, defaults: Partial<Bindings> = {}): Isolate {
  if (latest?.env === env) return latest.isolate;
  const isolate = isolates.get(env) ?? createIsolate({ ...defaults, ...env });
  isolates.set(env, isolate);
  latest = { env, isolate };
  return isolate;
}

function createIsolate(env: Bindings): Isolate {
  const parts = createParts(env);
  return { ...parts, app: createApp(parts.services) };
}
