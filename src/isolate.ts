// All parts of Weir, made once per isolate for each set of bindings.
import type { Bindings } from './bindings.ts';
import { type App, createApp } from './http/app.ts';
import { createParts, type Parts } from './services.ts';

export interface Isolate extends Parts {
  readonly app: App;
}

const isolates = new WeakMap<object, Isolate>();

/** Throws a ConfigError that names every variable that is missing or wrong. */
export function isolateOf(env: Bindings, defaults: Partial<Bindings> = {}): Isolate {
  const known = isolates.get(env);
  if (known) return known;
  const parts = createParts({ ...defaults, ...env });
  const isolate = { ...parts, app: createApp(parts.services) };
  isolates.set(env, isolate);
  return isolate;
}
