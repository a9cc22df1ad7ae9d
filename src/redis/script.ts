// Composes the Lua modules into the one script that Redis runs, and knows its SHA-1.
import concurrency from '../../lua/concurrency.lua';
import counters from '../../lua/counters.lua';
import fixedWindow from '../../lua/fixed-window.lua';
import gcra from '../../lua/gcra.lua';
import invalidCheck from '../../lua/invalid-check.lua';
import leakyBucket from '../../lua/leaky-bucket.lua';
import liveRecords from '../../lua/live-records.lua';
import slidingWindowBuckets from '../../lua/sliding-window-buckets.lua';
import slidingWindowCounter from '../../lua/sliding-window-counter.lua';
import slidingWindowLog from '../../lua/sliding-window-log.lua';
import tokenBucket from '../../lua/token-bucket.lua';
import type { AlgorithmId } from '../core/counting/algorithms/registry.ts';
import { digest, toHex } from '../core/digest.ts';

/** By the letter that a counter's state is stored under: a letter is never given to another algorithm; m and n are taken. */
const ALGORITHMS: readonly (readonly [letter: string, id: AlgorithmId, source: string])[] = [
  ['f', 'fixed-window', fixedWindow],
  ['c', 'sliding-window-counter', slidingWindowCounter],
  ['t', 'token-bucket', tokenBucket],
  ['g', 'gcra', gcra],
  ['k', 'leaky-bucket', leakyBucket],
  ['b', 'sliding-window-buckets', slidingWindowBuckets],
  ['l', 'sliding-window-log', slidingWindowLog],
  ['h', 'concurrency', concurrency],
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

type Block = 'read' | 'charge';

/** What the composer knows of an algorithm's source. */
interface Parts {
  /** Code blocks by name; none for a module, which returns two functions. */
  readonly blocks: Partial<Record<Block, string>> | undefined;
  /** Names of the stored values, in order. Those that end with `Text` are text, the others whole numbers. */
  readonly state: readonly string[];
  /** Names that blocks share without storing them. */
  readonly locals: readonly string[];
}

function composeText(): string {
  const parts = new Map(ALGORITHMS.map(([, id, source]) => [id, partsOf(source)]));
  const of = (id: AlgorithmId) => parts.get(id) as Parts;
  const names = [...parts.values()].flatMap(({ state, locals }) => [...state, ...locals]);
  const lines: Record<string, string> = {
    locals: `local ${[...new Set(names)].join(', ')}`,
    code: choose(([letter]) => `code = '${letter}'`),
    load: choose(([letter, id]) => loadOf(letter, of(id).state)),
    store: choose(([letter, id]) => storeOf(letter, of(id).state)),
    read: choose(([, id]) => of(id).blocks?.read ?? callOf(id, 'read', of(id).state)),
    charge: choose(([, id]) => of(id).blocks?.charge ?? callOf(id, 'charge', of(id).state)),
  };
  const main = counters.replace(/^ *--@(\w+)$/gm, (_, name: string) => lines[name] ?? '');
  return [FLAG, composeModules(), main].join('\n');
}

/** One branch for each algorithm. */
function choose(branchOf: (algorithm: (typeof ALGORITHMS)[number]) => string): string {
  const branches = ALGORITHMS.map(
    (algorithm) => `algorithm == '${algorithm[1]}' then\n${branchOf(algorithm)}\n`,
  );
  return `if ${branches.join('elseif ')}end`;
}

function partsOf(source: string): Parts {
  const names = (kind: string) => wordsAfter(source, kind);
  const [like] = names('like');
  const base = like === undefined ? undefined : partsOf(ALGORITHMS.find(([, id]) => id === like)?.[2] ?? '');
  const blocks = isModule(source) ? undefined : blocksOf(source);
  if (base === undefined) return { blocks, state: names('state'), locals: names('local') };
  // What it says itself comes after what it takes over.
  const joined = (name: Block) => `${base.blocks?.[name] ?? ''}${blocks?.[name] ?? ''}`;
  return {
    ...base,
    blocks: { read: joined('read'), charge: joined('charge') },
  };
}

const wordsAfter = (source: string, kind: string): string[] =>
  new RegExp(`^--@${kind} (.+)$`, 'm').exec(source)?.[1]?.split(' ') ?? [];

const isModule = (source: string) => /^return read, charge$/m.test(source);

function blocksOf(source: string): Partial<Record<Block, string>> {
  const sections = source.split(/^--@/m).slice(1);
  return Object.fromEntries(
    sections.map((section) => [
      section.slice(0, section.search(/\s/)),
      section.slice(section.indexOf('\n') + 1),
    ]),
  );
}

const isText = (name: string) => name.endsWith('Text');

/** Reads a record: numbers by one pattern; a text, which comes last, up to the semicolon. */
function loadOf(letter: string, state: readonly string[]): string {
  const numbers = state.filter((name) => !isText(name));
  const text = state.find(isText);
  const captures = numbers.map((_, i) => `n${i + 1}`);
  const pattern = ['(%d+)', '(%d*)', ...numbers.map(() => '(%d+)')].join(' ');
  const targets = ['_', 'past', 'r', 'b', ...captures].join(', ');
  const adopt = [
    'resetText = r',
    'blockText = b',
    ...numbers.map((name, i) => `${name} = tonumber(n${i + 1})`),
  ];
  if (text === undefined)
    return `local ${targets} = find(text, '^${letter}${pattern};', start)
if past then last = past ${adopt.join(' ')} end`;
  return `local ${targets} = find(text, '^${letter}${pattern} ', start)
local stop = past and find(text, ';', past, true)
if stop then last = stop ${adopt.join(' ')} ${text} = sub(text, past + 1, stop - 1) end`;
}

function storeOf(letter: string, state: readonly string[]): string {
  const fields = state.map((name) => (isText(name) ? '%s' : '%d')).join(' ');
  return `record = format('\\n%s ${letter}%d %s ${fields};', id, reset, blockText, ${state.join(', ')})`;
}

const ARGUMENTS: Record<Block, string> = {
  read: 'now, limit, windowMs, extra, cost',
  charge: 'units, chargedAt, now, limit, windowMs, extra',
};

/** What each returns before the state; `read` also returns the units that a lease holds, after it. */
const RESULTS: Record<Block, readonly string[]> = {
  read: ['room', 'capacity', 'wait'],
  charge: ['reset'],
};

/** Results go to names of their own first: nothing is written that the call still reads. */
function callOf(id: AlgorithmId, name: Block, state: readonly string[]): string {
  const targets = [...RESULTS[name], ...state, ...(name === 'read' ? ['held'] : [])];
  const results = targets.map((_, i) => `r${i + 1}`);
  return `local read, charge = module('${id}')
local ${results.join(', ')} = ${name}(${[ARGUMENTS[name], ...state].join(', ')})
${targets.map((target, i) => `${target} = r${i + 1}`).join(' ')}`;
}

/** `module` makes a part when it is needed: what is not used costs nothing. */
function composeModules(): string {
  const modules = ALGORITHMS.filter(([, , source]) => isModule(source));
  const parts = [
    ...modules.map(([, id, source]) => [id, source] as const),
    ['invalid-check', invalidCheck] as const,
    ['live-records', liveRecords] as const,
  ];
  const branches = parts.map(([id, source]) => `if id == '${id}' then\n${source}\nend`);
  return ['local function module(id)', ...branches, 'end'].join('\n');
}
