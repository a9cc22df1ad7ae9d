// What the global set-ups hand to the tests.
import 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    readonly workerVariables: Record<string, string>;
  }
}
