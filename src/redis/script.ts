// Composes the Lua modules into the one script that Redis runs, and knows its SHA-1.
import concurrency from '../../lua/concurrency.lua';
import counters from '../../lua/counters.lua';
import fixedWindow from '../../lua/fixed-window.lua';
import gcra from '../../lua/gcra.lua';
import leakyBucket from '../../lua/leaky-bucket.lua';
import refusal from '../../lua/refusal.lua';
import slidingWindowBuckets from '../../lua/sliding-window-buckets.lua';
import slidingWindowCounter from '../../lua/sliding-window-counter.lua';
import slidingWindowLog from '../../lua/sliding-window-log.lua';
import tokenBucket from '../../lua/token-bucket.lua';
import type { AlgorithmId } from '../core/algorithms/registry.ts';
import { digest, toHex } from '../core/digest.ts';

/** By the code that a counter's state is stored under: a code is never given to another algorithm. */
const ALGORITHMS: readonly (readonly [code: number, id: AlgorithmId, source: string])[] = [
  [1, 'fixed-window', fixedWindow],
  [2, 'sliding-window-counter', slidingWindowCounter],
  [4, 'gcra', gcra],
  [5, 'leaky-bucket', leakyBucket],
  [6, 'sliding-window-buckets', slidingWindowBuckets],
  [7, 'sliding-window-log', slidingWindowLog],
  [8, 'concurrency', concurrency],
  // 3 was the bucket by its level.
  [9, 'token-bucket', tokenBucket],
];

/** Without this flag Upstash locks the whole database for the run instead of the keys named in KEYS. */
const FLAG = '#!lua flags=allow-key-locking';

export interface Script {
  readonly text: string;
  /** Of the exact text: Redis knows the script by it. */
  readonly sha: string;
}

export async function composeScript(): Promise<Script> {
  const text = composeText();
  return { text, sha: toHex(await digest('SHA-1', text)) };
}

type Block = 'read' | 'charge' | 'relieve';

function composeText(): string {
  const main = counters
    .replace(/^ *--@code$/gm, () => choose(([code]) => `code = ${code}`))
    .replace(/^ *--@(read|charge|relieve)$/gm, (_, name: Block) =>
      choose(([, id, source]) => blockOf(source, name) ?? callOf(id, name)),
    );
  return [FLAG, composeLoad(), main].join('\n');
}

/** One branch for each algorithm. */
function choose(branchOf: (algorithm: (typeof ALGORITHMS)[number]) => string): string {
  const branches = ALGORITHMS.map(
    (algorithm) => `algorithm == '${algorithm[1]}' then\n${branchOf(algorithm)}\n`,
  );
  return `if ${branches.join('elseif ')}end`;
}

/** The block of that name, if the source is made of blocks. */
function blockOf(source: string, name: Block): string | undefined {
  const [, after] = source.split(`--@${name}\n`);
  return after?.split('--@')[0];
}

const CALLS: Record<Block, string> = {
  read: 'room, capacity, wait, a, b, c = read(now, limit, windowMs, extra, cost, a, b, c)',
  charge: 'resetAt, a, b, c = charge(units, chargedAt, now, limit, windowMs, extra, a, b, c)',
  relieve: 'a, b, c = relieve(relief, since, fullLimit, now, limit, windowMs, extra, a, b, c)',
};

const callOf = (id: AlgorithmId, name: Block): string =>
  `local read, charge, relieve = load('${id}')\n${CALLS[name]}`;

/** `load` makes a part when it is needed: what is not used costs nothing. */
function composeLoad(): string {
  const modules = ALGORITHMS.filter(([, , source]) => blockOf(source, 'read') === undefined);
  const parts = [...modules.map(([, id, source]) => [id, source] as const), ['refusal', refusal] as const];
  const branches = parts.map(([id, source]) => `if id == '${id}' then\n${source}\nend`);
  return ['local function load(id)', ...branches, 'end'].join('\n');
}
