// Loads modules that most isolates never need. Each is deployed as a file of its own (local/build.ts).

/** Loads a module on first use and makes one value from it. Requests share that value, never a promise. */
export function lazyModule<Module, Made>(
  load: () => Promise<Module>,
  make: (module: Module) => Made,
): () => Promise<Made> {
  let made: Made | undefined;
  return async () => {
    if (made !== undefined) return made;
    const module = await load();
    // Another request may have been first.
    made ??= make(module);
    return made;
  };
}
