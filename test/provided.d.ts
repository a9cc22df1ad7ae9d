// What the global set-up hands to the tests.
import 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    /** Where the process of the shared parts answers. */
    readonly sharedParts: string;
  }
}
