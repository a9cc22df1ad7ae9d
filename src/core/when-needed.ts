// Modules that most isolates never need. Each is a file of its own in what is deployed (local/build.ts).

/** Loads a module when it is first needed, and makes one thing of it. Requests share that thing, never a promise. */
export function whenNeeded<Module, Made>(
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
