// How test files ask for the parts that they share: over HTTP, because they run in many processes.

/** All migrations, or nothing. */
export type DatabaseContent = 'migrated' | 'empty';

export interface SharedParts {
  /** The folder of the bundle that `wrangler deploy` would upload. Built once. */
  worker(): Promise<string>;
  /** The URL of a new database on a real PostgreSQL. */
  createDatabase(content: DatabaseContent): Promise<string>;
  dropDatabase(url: string): Promise<void>;
  /** Variables for a Worker: regions, Postgres and an origin that no other file uses. */
  openStack(): Promise<Record<string, string>>;
  /** Data of a PGlite that holds nothing yet, to be copied: making them takes seconds of processor time. */
  pgliteFolder(): Promise<string>;
}

/** `url` is the value of `sharedParts` from the set-up. */
export function createSharedParts(url: string): SharedParts {
  const ask = async <T>(what: keyof SharedParts, argument = ''): Promise<T> => {
    const answer = await fetch(`${url}/${what}?argument=${encodeURIComponent(argument)}`);
    if (!answer.ok) throw new Error(await answer.text());
    return (await answer.json()) as T;
  };
  return {
    worker: () => ask('worker'),
    createDatabase: (content) => ask('createDatabase', content),
    dropDatabase: (database) => ask('dropDatabase', database),
    openStack: () => ask('openStack'),
    pgliteFolder: () => ask('pgliteFolder'),
  };
}
