// Decides which locks a command takes on Upstash (docs: "Key-Based Locking", EVAL, EVAL_RO).
import { DATABASE, type Mode, type Wanted } from './locks.ts';
import type { Argument, RedisCommand, RedisLink, Reply } from './redis-link.ts';

export interface LockNeeds {
  of(command: RedisCommand): Promise<Wanted>;
  /** All its keys exclusively, or the whole database if it contains a script. */
  ofTransaction(commands: readonly RedisCommand[]): Promise<Wanted>;
}

interface CommandKeys {
  readonly mode: Mode;
  /** Positions of the first and last key, and their distance. Undefined if only Redis knows. */
  readonly positions: readonly [first: number, last: number, step: number] | undefined;
}

/** Whether a script has the flag, by EVAL's text or EVALSHA's digest. */
export type HasKeyLocking = (command: RedisCommand) => boolean;

const WHOLE: Wanted = new Map([[DATABASE, 'exclusive']]);
const SCRIPT = /^EVAL(SHA)?(_RO)?$/i;
/** These touch keys that none of their arguments names. */
const DATABASE_WIDE = /^(FLUSHDB|FLUSHALL)$/i;

export async function createLockNeeds(link: RedisLink, hasKeyLocking: HasKeyLocking): Promise<LockNeeds> {
  const known = readCommands(await link.send(['COMMAND']));

  const keysOf = async (command: RedisCommand): Promise<string[]> => {
    const [name, ...args] = command;
    if (SCRIPT.test(name)) return args.slice(2, 2 + Number(args[1])).map(String);
    const positions = known.get(name.toUpperCase())?.positions;
    if (positions) return pick(args, positions);
    const reply = await link.send(['COMMAND', 'GETKEYS', ...command]);
    return Array.isArray(reply) ? reply.map(String) : [];
  };

  const lock = (keys: readonly string[], mode: Mode): Wanted => {
    const wanted = new Map<string | typeof DATABASE, Mode>([[DATABASE, 'shared']]);
    for (const key of keys) wanted.set(key, mode);
    return wanted;
  };

  return {
    async of(command) {
      const [name] = command;
      const isWhole = DATABASE_WIDE.test(name) || (SCRIPT.test(name) && !hasKeyLocking(command));
      if (isWhole) return WHOLE;
      return lock(await keysOf(command), known.get(name.toUpperCase())?.mode ?? 'exclusive');
    },

    async ofTransaction(commands) {
      const needsWhole = commands.some(([name]) => DATABASE_WIDE.test(name) || SCRIPT.test(name));
      return needsWhole ? WHOLE : lock((await Promise.all(commands.map(keysOf))).flat(), 'exclusive');
    },
  };
}

function pick(args: readonly Argument[], [first, last, step]: readonly [number, number, number]): string[] {
  if (first === 0) return [];
  const end = last < 0 ? args.length + last : last - 1;
  return args.filter((_, i) => i >= first - 1 && i <= end && (i - first + 1) % step === 0).map(String);
}

function readCommands(reply: Reply): Map<string, CommandKeys> {
  const known = new Map<string, CommandKeys>();
  for (const entry of Array.isArray(reply) ? reply : []) {
    const [name, , flags, first, last, step] = entry as Reply[];
    const has = (flag: string) => Array.isArray(flags) && flags.some((one) => String(one) === flag);
    known.set(String(name).toUpperCase(), {
      mode: has('readonly') ? 'shared' : 'exclusive',
      positions: has('movablekeys') ? undefined : [Number(first), Number(last), Number(step)],
    });
  }
  return known;
}
