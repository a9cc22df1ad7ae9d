// What test files ask of the parts that they share. By HTTP, because they run in many processes.

export interface SharedParts {
  /** The folder of the bundle that `wrangler deploy` would upload. Built once. */
  worker(): Promise<string>;
  /** The URL of a new database with all migrations, on a real PostgreSQL. */
  createDatabase(): Promise<string>;
  dropDatabase(url: string): Promise<void>;
  /** Variables for a Worker: regions, Postgres and an origin that no other file has. */
  openStack(): Promise<Record<string, string>>;
}

/** `url` is what the set-up provides as `sharedParts`. */
export function createSharedParts(url: string): SharedParts {
  const ask = async <T>(what: keyof SharedParts, argument = ''): Promise<T> => {
    const answer = await fetch(`${url}/${what}?argument=${encodeURIComponent(argument)}`);
    if (!answer.ok) throw new Error(await answer.text());
    return (await answer.json()) as T;
  };
  return {
    worker: () => ask('worker'),
    createDatabase: () => ask('createDatabase'),
    dropDatabase: (database) => ask('dropDatabase', database),
    openStack: () => ask('openStack'),
  };
}
