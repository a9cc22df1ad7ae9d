// Hands out turns on PGlite's one session: first come, first served.

export interface Turns {
  /** Resolves when it is the caller's turn. Call the result to end the turn. */
  take(): Promise<() => void>;
  readonly waiting: number;
}

export function createTurns(): Turns {
  const queue: (() => void)[] = [];
  let taken = false;

  const end = () => {
    const next = queue.shift();
    if (next === undefined) taken = false;
    else next();
  };

  const onlyOnce = (): (() => void) => {
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      end();
    };
  };

  return {
    async take() {
      if (taken) await new Promise<void>((resolve) => queue.push(resolve));
      taken = true;
      return onlyOnce();
    },
    get waiting() {
      return queue.length;
    },
  };
}
