// `weir keys import`: brings the keys that customers have already into Weir. The file is read twice: first to find what is
// wrong with it, so that a bad file changes nothing, and then to send it in pieces. Keys are hashed here: Weir gets the
// hashes alone. A piece that is sent again changes nothing, so after a failure the same command goes on.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import { createInterface } from 'node:readline';
import { pipeline } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { parse } from 'csv-parse';
import { canBeKey, hasFormOfWeir, isWellFormedKey, WHAT_CAN_BE_KEY } from '../../src/identity/api-key.ts';
import { type Command, type CommandContext, CommandError, RefusedError, textOption } from '../command.ts';

const FIELDS = ['key', 'sha256', 'name', 'userId', 'tenantId', 'tier', 'expiresAt', 'disabled'] as const;
type Field = (typeof FIELDS)[number];
/** Empty cells of these columns mean that there is none. In the others they say nothing. */
const NULLABLE: readonly string[] = ['userId', 'tenantId', 'tier', 'expiresAt'];

const KEYS_AT_ONCE = 2_000;
const MOST_PROBLEMS = 20;
const PROGRESS_MS = 5_000;
/** Before each further try of a piece. A deployment or a short outage passes meanwhile. */
const PAUSES_MS = [1_000, 3_000, 10_000, 30_000];

export const keys: Command = {
  usage: 'keys import FILE [--dry-run] [--map FROM=FIELD,…] [--from ROW]',
  does: `imports keys that your customers have: CSV or NDJSON with key or sha256; and ${FIELDS.slice(2).join(', ')}`,
  options: { 'dry-run': undefined, map: 'FROM=FIELD,…', from: 'ROW' },
  async run(context) {
    const [action, file] = context.words;
    if (action !== 'import' || file === undefined) throw new CommandError(`usage: weir ${keys.usage}`);
    return importFile(context, file);
  },
};

interface Row {
  /** From 1 on, without the head of a CSV file. */
  readonly number: number;
  /** Where the row is in the file. */
  readonly line: number;
  readonly fields: Readonly<Record<string, unknown>>;
}

type Entry = Readonly<Record<string, unknown>> & { readonly sha256: string };

interface Counts {
  created: number;
  updated: number;
  unchanged: number;
  users: number;
  tenants: number;
}

async function importFile(context: CommandContext, file: string): Promise<0> {
  const { options, say, report } = context;
  const fieldOf = readMap(textOption(options, 'map'));
  const from = readFrom(textOption(options, 'from'));
  const isDryRun = options['dry-run'] === true;
  const rows = () => rowsOf(file, fieldOf);
  const total = await expectGood(file, rows(), say);
  const counts: Counts = { created: 0, updated: 0, unchanged: 0, users: 0, tenants: 0 };
  const startedMs = Date.now();
  let toldMs = startedMs;
  let sent = 0;
  for await (const piece of inPieces(rows(), from)) {
    const last = piece.at(-1)?.number ?? 0;
    const query = `?dryRun=${isDryRun}&publish=${last === total}`;
    const answer = await send(context, { piece, query, isFirst: sent === 0, file });
    for (const name of Object.keys(counts) as (keyof Counts)[]) counts[name] += answer[name];
    sent += piece.length;
    if (Date.now() - toldMs < PROGRESS_MS) continue;
    toldMs = Date.now();
    say(`${last} of ${total} rows, ${Math.round((sent * 1_000) / (toldMs - startedMs))} a second`);
  }
  report({ file, dryRun: isDryRun, rows: total, ...counts });
  say(
    `${isDryRun ? 'would import' : 'imported'} ${sent} ${sent === 1 ? 'key' : 'keys'} of ${basename(file)}: ${wordsOf(counts)}`,
  );
  return 0;
}

const wordsOf = ({ created, updated, unchanged, users, tenants }: Counts): string =>
  `${created} created, ${updated} updated, ${unchanged} unchanged; ${users} users and ${tenants} tenants created`;

/** How the file names the fields; undefined: the column is left out. */
type FieldOf = (column: string) => Field | undefined;

function readMap(text: string | undefined): FieldOf {
  const pairs = (text ?? '').split(',').filter((pair) => pair !== '');
  const fields = new Map<string, Field | undefined>(FIELDS.map((field) => [field, field]));
  for (const pair of pairs) {
    const at = pair.lastIndexOf('=');
    const [column, field] = [pair.slice(0, at), pair.slice(at + 1)];
    if (at < 1 || (field !== '' && !FIELDS.includes(field as Field)))
      throw new CommandError(`--map takes COLUMN=FIELD, not "${pair}": the fields are ${FIELDS.join(', ')}`);
    fields.set(column, field === '' ? undefined : (field as Field));
  }
  return (column) => {
    if (fields.has(column)) return fields.get(column);
    throw new CommandError(
      `there is no field "${column}": name it with --map ${column}=FIELD, or leave it out with --map ${column}=. The fields are ${FIELDS.join(', ')}`,
    );
  };
}

function readFrom(text = '1'): number {
  const row = Number(text);
  if (Number.isSafeInteger(row) && row > 0) return row;
  throw new CommandError(`--from takes the number of a row, not "${text}"`);
}

/** Reads the file from its beginning. */
function rowsOf(file: string, fieldOf: FieldOf): AsyncGenerator<Row> {
  const isJson = /\.(ndjson|jsonl|json)$/i.test(file);
  return isJson ? jsonRows(file, fieldOf) : csvRows(file, fieldOf);
}

const unreadable = (file: string, error: unknown) =>
  new CommandError(`${file} cannot be read: ${(error as Error).message}`);

async function* csvRows(file: string, fieldOf: FieldOf): AsyncGenerator<Row> {
  const columns = (head: string[]) => head.map((column) => fieldOf(column.trim()) ?? false);
  const parser = parse({ bom: true, columns, info: true, skip_empty_lines: true, trim: true });
  // The parser has the error, too, and throws it below.
  pipeline(createReadStream(file), parser, () => {});
  let number = 0;
  try {
    for await (const { record, info } of parser as AsyncIterable<{
      record: Readonly<Record<string, string>>;
      info: { readonly lines: number };
    }>) {
      number += 1;
      yield { number, line: info.lines, fields: saidBy(record) };
    }
  } catch (error) {
    throw error instanceof CommandError ? error : unreadable(file, error);
  }
}

/** What the cells of a row say. */
function saidBy(cells: Readonly<Record<string, string>>): Readonly<Record<string, unknown>> {
  const said = Object.entries(cells).flatMap(([field, text]): [string, unknown][] => {
    if (text === '') return NULLABLE.includes(field) ? [[field, null]] : [];
    return [[field, field === 'disabled' ? (BOOLEANS[text.toLowerCase()] ?? text) : text]];
  });
  return Object.fromEntries(said);
}
const BOOLEANS: Readonly<Record<string, boolean>> = { true: true, false: false, 1: true, 0: false };

async function* jsonRows(file: string, fieldOf: FieldOf): AsyncGenerator<Row> {
  const input = createReadStream(file);
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY });
  // Otherwise nobody hears that the file is not there.
  const failed = new Promise<never>((_, reject) => input.once('error', reject));
  failed.catch(() => {});
  const iterator = lines[Symbol.asyncIterator]();
  let line = 0;
  let number = 0;
  for (;;) {
    const { value: text, done } = await Promise.race([iterator.next(), failed]).catch((error: unknown) => {
      throw unreadable(file, error);
    });
    if (done) return;
    line += 1;
    if (text.trim() === '') continue;
    number += 1;
    yield { number, line, fields: parseLine(text, `${file}:${line}`, fieldOf) };
  }
}

function parseLine(text: string, where: string, fieldOf: FieldOf): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new CommandError(`${where} is not JSON: each line takes one object`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new CommandError(`${where} is not an object`);
  const said = Object.entries(value).flatMap(([name, told]): [string, unknown][] => {
    const field = fieldOf(name);
    return field === undefined ? [] : [[field, told]];
  });
  return Object.fromEntries(said);
}

/** Reads the whole file, and throws an error that names what is wrong. Resolves to the number of rows. */
async function expectGood(
  file: string,
  rows: AsyncIterable<Row>,
  say: CommandContext['say'],
): Promise<number> {
  const problems: string[] = [];
  /** By the first bytes of the hash: a million of them fit into memory. */
  const lines = new Map<string, number>();
  let total = 0;
  let toldMs = Date.now();
  for await (const row of rows) {
    total = row.number;
    const problem = (await problemOf(row)) ?? twiceIn(lines, row);
    if (problem !== undefined && problems.push(`  ${file}:${row.line} ${problem}`) === MOST_PROBLEMS) break;
    if (Date.now() - toldMs < PROGRESS_MS) continue;
    toldMs = Date.now();
    say(`reading: ${total} rows`);
  }
  if (problems.length === MOST_PROBLEMS) problems.push('  and perhaps more');
  if (problems.length > 0) throw new CommandError(`nothing was imported:\n${problems.join('\n')}`);
  if (total === 0) throw new CommandError(`${file} has no rows`);
  return total;
}

/** Never names the key: the message may end in a log. Weir judges the other fields. */
async function problemOf({ fields: { key, sha256 } }: Row): Promise<string | undefined> {
  if (key === undefined && sha256 === undefined) return 'has neither key nor sha256';
  if (key !== undefined && sha256 !== undefined) return 'has both key and sha256: one of them is enough';
  if (sha256 !== undefined)
    return typeof sha256 === 'string' && /^[0-9a-f]{64}$/i.test(sha256)
      ? undefined
      : 'sha256: must have 64 hexadecimal digits';
  if (typeof key !== 'string' || !canBeKey(key)) return `key: ${WHAT_CAN_BE_KEY}`;
  return hasFormOfWeir(key) && !(await isWellFormedKey(key))
    ? 'key: begins like a key of Weir, and has a mistake in it'
    : undefined;
}

function twiceIn(lines: Map<string, number>, row: Row): string | undefined {
  const start = toEntry(row).sha256.slice(0, 24);
  const before = lines.get(start);
  lines.set(start, row.line);
  return before === undefined ? undefined : `has the key of line ${before}`;
}

function toEntry({ fields: { key, sha256, ...others } }: Row): Entry {
  const hash = typeof key === 'string' ? createHash('sha256').update(key).digest('hex') : String(sha256);
  return { sha256: hash.toLowerCase(), ...others };
}

async function* inPieces(rows: AsyncIterable<Row>, from: number): AsyncGenerator<readonly Row[]> {
  let piece: Row[] = [];
  for await (const row of rows) {
    if (row.number < from) continue;
    piece.push(row);
    if (piece.length < KEYS_AT_ONCE) continue;
    yield piece;
    piece = [];
  }
  if (piece.length > 0) yield piece;
}

interface Sending {
  readonly piece: readonly Row[];
  readonly query: string;
  readonly isFirst: boolean;
  readonly file: string;
}

async function send({ api, say }: CommandContext, { piece, query, isFirst, file }: Sending): Promise<Counts> {
  const body = { keys: piece.map(toEntry) };
  for (let tries = 0; ; tries += 1) {
    try {
      return await api.admin<Counts>('POST', `/keys/import${query}`, body);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      const isRefused = error instanceof RefusedError && error.status < 500 && error.status !== 429;
      if (isRefused) throw new CommandError(inFile(error, piece, file));
      const pauseMs = PAUSES_MS[tries];
      const first = piece[0]?.number;
      // At the beginning, a wrong URL is likelier than an outage.
      if (isFirst) throw error;
      if (pauseMs === undefined)
        throw new CommandError(
          `${error.message}\nstopped before row ${first}: the same command goes on, and --from ${first} skips what is in`,
        );
      say(`row ${first}: ${error.message}; again in ${pauseMs / 1_000} s`);
      await pause(pauseMs);
    }
  }
}

/** What Weir refuses, with the lines of the file instead of places in the body. */
function inFile({ message, errors }: RefusedError, piece: readonly Row[], file: string): string {
  const lines = errors.map(({ pointer, detail }) => {
    const [, place, field = ''] = /^#\/keys\/(\d+)\/?(.*)$/.exec(pointer) ?? [];
    const row = piece[Number(place)];
    return row ? `  ${file}:${row.line} ${field} ${detail}` : `  ${pointer} ${detail}`;
  });
  const first = piece[0]?.number ?? 1;
  const before = first > 1 ? `rows before ${first} are in, ` : '';
  return [
    message.split('\n')[0],
    ...lines,
    `${before}nothing of rows ${first} to ${piece.at(-1)?.number}`,
  ].join('\n');
}
