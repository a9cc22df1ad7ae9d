// All parts of Weir, made once per isolate for each set of bindings.
import type { Bindings } from './bindings.ts';
import { type App, createApp } from './http/app.ts';
import { createIsolateServices, type IsolateServices } from './wiring.ts';

export type Isolate<P extends IsolateServices = IsolateServices> = P & { readonly app: App };

/** Calls `create` once for each set of bindings. `create` may throw a ConfigError that names every bad variable. */
export function createIsolates<P extends IsolateServices>(
  create: (env: Bindings) => P,
): (env: Bindings) => Isolate<P> {
  const isolates = new WeakMap<object, Isolate<P>>();
  /** The bindings of the last request, which are mostly those of the next one. */
  let latest: { readonly env: object; readonly isolate: Isolate<P> } | undefined;
  const make = (env: Bindings) => {
    const parts = create(env);
    return { ...parts, app: createApp(parts.services) };
  };
  return (env) => {
    if (latest?.env === env) return latest.isolate;
    const isolate = isolates.get(env) ?? make(env);
    isolates.set(env, isolate);
    latest = { env, isolate };
    return isolate;
  };
}

export const isolateOf = createIsolates((env) => createIsolateServices(env));
