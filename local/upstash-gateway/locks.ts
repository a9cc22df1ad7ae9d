// Locks on keys, as on Upstash: shared for reads, exclusive for writes, and one lock on the whole database. Requests
// are served in order, so a read does not overtake a waiting write.
import { setTimeout as sleep } from 'node:timers/promises';

export type Mode = 'shared' | 'exclusive';

/** All commands share this lock, except those that need the whole database. */
export const DATABASE = Symbol('database');

export type Wanted = ReadonlyMap<string | typeof DATABASE, Mode>;

export interface LockOptions {
  /** How long a write keeps its locks after it has run: Upstash replicates before it answers. */
  readonly holdMs: number;
  /** Called for each command with the time it waited for its locks. */
  readonly onWait?: (ms: number) => void;
}

export interface Locks {
  run<T>(wanted: Wanted, work: () => Promise<T>): Promise<T>;
}

interface Queue {
  held: number;
  /** The mode of those that hold the lock. */
  mode: Mode;
  readonly waiting: { readonly mode: Mode; grant(): void }[];
}

export function createLocks({ holdMs, onWait }: LockOptions): Locks {
  const queues = new Map<string | typeof DATABASE, Queue>();

  const admit = (queue: Queue) => {
    for (let next = queue.waiting[0]; next && fits(queue, next.mode); next = queue.waiting[0]) {
      queue.waiting.shift();
      queue.held += 1;
      queue.mode = next.mode;
      next.grant();
    }
  };

  // Takes a place in all queues at once, so that the order is the same in every queue and no two commands wait for each
  // other.
  const acquire = (wanted: Wanted) =>
    Promise.all(
      [...wanted].map(([name, mode]) => {
        const queue = queues.get(name) ?? { held: 0, mode, waiting: [] };
        queues.set(name, queue);
        return new Promise<void>((grant) => {
          queue.waiting.push({ mode, grant });
          admit(queue);
        });
      }),
    );

  const release = (wanted: Wanted) => {
    for (const name of wanted.keys()) {
      const queue = queues.get(name);
      if (!queue) continue;
      queue.held -= 1;
      admit(queue);
      if (queue.held === 0) queues.delete(name);
    }
  };

  return {
    async run(wanted, work) {
      const askedAtMs = performance.now();
      await acquire(wanted);
      onWait?.(performance.now() - askedAtMs);
      try {
        const done = await work();
        if ([...wanted.values()].includes('exclusive') && holdMs > 0) await sleep(holdMs);
        return done;
      } finally {
        release(wanted);
      }
    },
  };
}

const fits = ({ held, mode }: Queue, wanted: Mode) =>
  held === 0 || (mode === 'shared' && wanted === 'shared');
