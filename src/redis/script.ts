// Composes the Lua modules into the one script that Redis runs, and knows its SHA-1.
import args from '../../lua/arguments.lua';
import call from '../../lua/call.lua';
import charging from '../../lua/charging.lua';
import concurrency from '../../lua/concurrency.lua';
import counters from '../../lua/counters.lua';
import fixedWindow from '../../lua/fixed-window.lua';
import gcra from '../../lua/gcra.lua';
import invalidCheck from '../../lua/invalid-check.lua';
import leakyBucket from '../../lua/leaky-bucket.lua';
import liveRecords from '../../lua/live-records.lua';
import placing from '../../lua/placing.lua';
import record from '../../lua/record.lua';
import slidingWindowBuckets from '../../lua/sliding-window-buckets.lua';
import slidingWindowCounter from '../../lua/sliding-window-counter.lua';
import slidingWindowLog from '../../lua/sliding-window-log.lua';
import tokenBucket from '../../lua/token-bucket.lua';
import transferring from '../../lua/transferring.lua';
import writing from '../../lua/writing.lua';
import { type AlgorithmId, traitsOf } from '../core/counting/algorithms/registry.ts';
import { digest, toHex } from '../core/digest.ts';

/** The script compares letters in this order, so the algorithms that most rules use come first. */
const SOURCES: Readonly<Record<AlgorithmId, string>> = {
  'fixed-window': fixedWindow,
  'sliding-window-counter': slidingWindowCounter,
  'token-bucket': tokenBucket,
  gcra,
  'leaky-bucket': leakyBucket,
  'sliding-window-buckets': slidingWindowBuckets,
  'sliding-window-log': slidingWindowLog,
  concurrency,
};

/** The parts of counters.lua. Each replaces its line `--@include NAME`. */
const INCLUDED: Readonly<Record<string, string>> = {
  call,
  arguments: args,
  record,
  transferring,
  charging,
  placing,
  writing,
};

interface Entry {
  readonly id: AlgorithmId;
  /** Names the algorithm in calls and in stored counters. No other algorithm may ever get it. */
  readonly letter: string;
  readonly source: string;
}

const ENTRIES = Object.entries(SOURCES).map(
  ([id, source]): Entry => ({ id: id as AlgorithmId, letter: wordsAfter(source, 'letter')[0] ?? '', source }),
);

const LETTERS = new Map(ENTRIES.map(({ letter, id }) => [id, letter]));

/** The letter of an algorithm; for an unknown one, a letter that the script does not know. */
export const letterOf = (id: AlgorithmId): string => LETTERS.get(id) ?? '?';

/** Without this flag Upstash locks the whole database for the run instead of the keys named in KEYS. */
const FLAG = '#!lua flags=allow-key-locking';

export interface Script {
  readonly text: string;
  /** The SHA-1 of the exact text, by which Redis knows the script. */
  readonly sha: string;
}

export async function composeScript(): Promise<Script> {
  const text = composeText();
  return { text, sha: toHex(await digest('SHA-1', text)) };
}

type Block = 'read' | 'charge';

/** An algorithm's source, as the composer reads it. */
interface Source {
  /** Code blocks by name. Undefined for a module, which returns two functions. */
  readonly blocks: Partial<Record<Block, string>> | undefined;
  /** Names of the stored values, in order. Those that end with `Text` are text, the others whole numbers. */
  readonly state: readonly string[];
  /** The leading values of `reset` and the state that most charges do not change. */
  readonly keeps: readonly string[];
  /** Names that blocks share without storing them. */
  readonly locals: readonly string[];
}

function composeText(): string {
  const parts = new Map(ENTRIES.map(({ id, source }) => [id, sourceOf(source)]));
  const of = (id: AlgorithmId) => parts.get(id) as Source;
  const names = [...parts.values()].flatMap(({ state, keeps, locals }) => [
    ...state,
    ...keeps.map((name) => `${name}Kept`),
    ...locals,
  ]);
  const read = (id: AlgorithmId) => of(id).blocks?.read ?? callOf(id, 'read', of(id).state);
  const charge = (id: AlgorithmId) => of(id).blocks?.charge ?? callOf(id, 'charge', of(id).state);
  const lines: Record<string, string> = {
    locals: `local ${[...new Set(names)].join(', ')}`,
    traits: ENTRIES.map(traitsIn).join('\n'),
    limitMayBeLarge: ENTRIES.map(limitMayBeLarge).join(''),
    limitFits: ENTRIES.map(limitFits).join(''),
    bucketsFit: ENTRIES.map(bucketsFit).join(''),
    judge: byCode(({ id }) => `${needsOf(id)}${loadOf(of(id))}\n${read(id)}`, UNKNOWN),
    charge: byCode(({ id }) => `${charge(id)}\n${storeOf(of(id))}`),
    again: byCode(({ id }) => read(id)),
  };
  const whole = counters.replace(/^ *--@include (\w+)$/gm, (_, name: string) => INCLUDED[name] ?? '');
  const text = [FLAG, composeModules(), whole].join('\n');
  return text.replace(/^ *--@(\w+)$/gm, (_, name: string) => lines[name] ?? '');
}

const codeOf = ({ letter }: Entry) => letter.charCodeAt(0);

/** The name of an algorithm and its traits, for invalid-check.lua. */
function traitsIn({ id, letter }: Entry): string {
  const { holdsSeats = false, mostUnits = false, countsUnits = false, extra } = traitsOf(id);
  const traits = [`'${id}'`, holdsSeats, mostUnits, extra === 'buckets', countsUnits];
  return `if letter == '${letter}' then return ${traits.join(', ')} end`;
}

const limitMayBeLarge = (entry: Entry): string =>
  traitsOf(entry.id).countsUnits ? ` or limit <= LARGEST and code == ${codeOf(entry)}` : '';

/** The quick check of the limit. A check with a seat always takes the thorough one. */
function limitFits(entry: Entry): string {
  const { mostUnits, holdsSeats } = traitsOf(entry.id);
  if (mostUnits === undefined || holdsSeats) return '';
  return ` and (limit <= ${mostUnits} or code ~= ${codeOf(entry)})`;
}

const bucketsFit = (entry: Entry): string =>
  traitsOf(entry.id).extra === 'buckets' ? ` and (extra <= MAX_BUCKETS or code ~= ${codeOf(entry)})` : '';

/** Refuses an unknown letter before the script writes anything. */
const UNKNOWN = "else return { err = 'WEIR_BAD_ARGUMENT check ' .. i .. ': unknown algorithm' }";

/** A call without a column of seats skips the thorough check, so the script asks for the column here. */
const needsOf = (id: AlgorithmId): string =>
  traitsOf(id).holdsSeats
    ? "if not seatAt then return { err = 'WEIR_BAD_ARGUMENT check ' .. i .. ': a seat has an id' } end\n"
    : '';

/** One branch for each algorithm, by the code of its letter. */
function byCode(branchOf: (algorithm: Entry) => string, otherwise = ''): string {
  const branches = ENTRIES.map(
    (entry) => `code == ${codeOf(entry)} then -- ${entry.id}\n${branchOf(entry)}\n`,
  );
  return `if ${branches.join('elseif ')}${otherwise} end`;
}

function sourceOf(source: string): Source {
  const names = (kind: string) => wordsAfter(source, kind);
  const [like] = names('like');
  const base = like === undefined ? undefined : sourceOf(ENTRIES.find(({ id }) => id === like)?.source ?? '');
  const blocks = isModule(source) ? undefined : blocksOf(source);
  if (base === undefined)
    return { blocks, state: names('state'), keeps: names('keeps'), locals: names('local') };
  // The algorithm's own code comes after the code of the one it builds on.
  const joined = (name: Block) => `${base.blocks?.[name] ?? ''}${blocks?.[name] ?? ''}`;
  return {
    ...base,
    blocks: { read: joined('read'), charge: joined('charge') },
  };
}

function wordsAfter(source: string, kind: string): string[] {
  return new RegExp(`^--@${kind} (.+)$`, 'm').exec(source)?.[1]?.split(' ') ?? [];
}

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
function loadOf({ state, keeps }: Source): string {
  const numbers = ['reset', ...state.filter((name) => !isText(name))];
  const text = state.find(isText);
  // The values that a charge does not change, then the position where the others begin.
  const [kept, changed] = [numbers.slice(0, keeps.length), numbers.slice(keeps.length)];
  const place = kept.length > 0 ? '()' : '';
  const pattern = `${kept.map(() => '(%d+) ').join('')}${place}${changed.map(() => '(%d+)').join(' ')}`;
  const captures = [...kept, ...(place ? ['changes'] : []), ...changed].map((name) => `${name}Text`);
  const end =
    text === undefined ? 'local stop = past' : "local stop = past and find(source, ';', past, true)";
  return `if fields then
local _, past, ${captures.join(', ')} = find(source, '^${pattern}${text === undefined ? ';' : ' '}', fields)
${end}
if stop then
last = stop - 1
changesAt = ${place ? 'changesText' : 'fields'}
${numbers.map((name) => `${name} = ${name}Text * 1`).join('\n')}
${kept.map((name) => `${name}Kept = ${name}`).join('\n')}
${text === undefined ? '' : `${text} = sub(source, past + 1, last)`}
if not isTake then expiryBefore = math.max(reset, blockedUntil) end
else
last = (find(source, ';', fields, true) or #source + 1) - 1
blockedUntil = 0
isLost = true
isUsual = false
end
end`;
}

/** Writes the changed part of a record, or the whole record. */
function storeOf({ state, keeps }: Source): string {
  const all = ['reset', ...state];
  const formatOf = (names: readonly string[]) => names.map((name) => (isText(name) ? '%s' : '%d')).join(' ');
  const changed = all.slice(keeps.length);
  const isKept = ['changesAt', ...keeps.map((name) => `${name}Kept == ${name}`)].join(' and ');
  return `if moves then
if ${isKept} then
record = format('${formatOf(changed)}', ${changed.join(', ')})
${keeps.includes('reset') ? 'isKept = keepsTtl' : ''}
else
record = format('%s${formatOf(all)}', start, ${all.join(', ')})
changesAt = place
end
end`;
}

const ARGUMENTS: Record<Block, string> = {
  read: 'now, limit, windowMs, extra, cost',
  charge: 'units, chargedAt, now, limit, windowMs, extra',
};

/** The results of each function before the state. `read` also returns the units of a seat, after the state. */
const RESULTS: Record<Block, readonly string[]> = {
  read: ['room', 'capacity', 'wait'],
  charge: ['reset'],
};

/** Results go to new names first: gopher-lua may overwrite a variable that the same call still reads. */
function callOf(id: AlgorithmId, name: Block, state: readonly string[]): string {
  const targets = [...RESULTS[name], ...state, ...(name === 'read' ? ['held'] : [])];
  const results = targets.map((_, i) => `r${i + 1}`);
  return `local read, charge = module('${id}')
local ${results.join(', ')} = ${name}(${[ARGUMENTS[name], ...state].join(', ')})
${targets.map((target, i) => `${target} = r${i + 1}`).join(' ')}`;
}

/** `module` builds a part on first use, so unused parts cost nothing. */
function composeModules(): string {
  const modules = ENTRIES.filter(({ source }) => isModule(source));
  const parts = [
    ...modules.map(({ id, source }) => [id, source] as const),
    ['invalid-check', invalidCheck] as const,
    ['live-records', liveRecords] as const,
  ];
  const branches = parts.map(([id, source]) => `if id == '${id}' then\n${source}\nend`);
  return ['local function module(id)', ...branches, 'end'].join('\n');
}
