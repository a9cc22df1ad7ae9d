// The results of a smoke test: one line for each check.

/** `warning`: the part works, but operators should know about the finding. */
export const STATES = ['ok', 'warning', 'failed'] as const;

export interface Finding {
  /** `redis eu`, `kv`, `postgres`, `page`. */
  readonly part: string;
  readonly check: string;
  readonly state: (typeof STATES)[number];
  /** What was found, in words and figures. */
  readonly found: string;
  /** What to do about it. */
  readonly advice?: string;
}

/** Errors of Weir's own clients hold no secrets. Other errors may, so a finding only says that something failed. */
export interface Attempt {
  readonly part: string;
  readonly check: string;
  readonly advice: string;
}

export async function attempt(
  { part, check, advice }: Attempt,
  work: () => Promise<Omit<Finding, 'part' | 'check'>>,
  wordsOf: (error: unknown) => string = () => 'it does not answer',
): Promise<Finding> {
  try {
    return { part, check, ...(await work()) };
  } catch (error) {
    return { part, check, state: 'failed', found: wordsOf(error), advice };
  }
}

export const findPageHost = (adminHost: string | undefined): Finding => ({
  part: 'page',
  check: 'host of its own',
  ...(adminHost === undefined
    ? {
        state: 'warning',
        found: 'it shares its host with the API',
        advice: 'Set ADMIN_HOST: a script on a page of the API can attack the page. See docs/page.md.',
      }
    : { state: 'ok', found: adminHost }),
});
