// Values that the global set-up passes to the tests.
import 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    /** The address of the process with the shared parts. */
    readonly sharedParts: string;
  }
}
