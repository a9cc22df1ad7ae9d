// Reads the query switches of the demo origin from a raw request target into typed values. A bad switch throws
// BadSwitch, which names the switch and the reason.
import { validateHeaderName, validateHeaderValue } from 'node:http';

export type HeaderPair = [name: string, value: string];

export interface Switches {
  delayMs: number;
  status: number | undefined;
  headers: HeaderPair[];
  bytes: number | undefined;
  stream: number | undefined;
  count: number;
  intervalMs: number;
  prompt: string;
  gzip: boolean;
  early: boolean;
  hang: boolean;
  stall: boolean;
  greet: boolean;
  fail: 'reset' | 'half' | undefined;
}

export class BadSwitch extends Error {
  readonly switchName: string;
  readonly reason: string;
  constructor(switchName: string, reason: string) {
    super(`${switchName}: ${reason}`);
    this.switchName = switchName;
    this.reason = reason;
  }
}

const MAX_WAIT_MS = 3_600_000;
const FRAMING_HEADERS = new Set(['content-length', 'transfer-encoding']);

/** The path of a request target exactly as received, without its query. */
export function rawPath(target: string): string {
  const end = target.indexOf('?');
  return end < 0 ? target : target.slice(0, end);
}

export function parseSwitches(target: string): Switches {
  const path = rawPath(target);
  const query = new URLSearchParams(target.slice(path.length));
  const switches: Switches = {
    delayMs: parseWhole(query, 'delay', { max: MAX_WAIT_MS }) ?? 0,
    status: parseWhole(query, 'status', { min: 200, max: 599 }),
    headers: parseHeaders(query),
    bytes: parseWhole(query, 'bytes'),
    stream: parseWhole(query, 'stream'),
    count: parseWhole(query, 'count') ?? 10,
    intervalMs: parseWhole(query, 'interval', { max: MAX_WAIT_MS }) ?? 100,
    prompt: single(query, 'prompt') ?? '',
    gzip: parseFlag(query, 'gzip'),
    early: parseChoice(query, 'early', ['103']) !== undefined,
    hang: parseFlag(query, 'hang'),
    stall: parseFlag(query, 'stall'),
    greet: parseFlag(query, 'greet'),
    fail: parseChoice(query, 'fail', ['reset', 'half']),
  };
  refuseTwoBodies(path, switches);
  return switches;
}

function single(query: URLSearchParams, name: string): string | undefined {
  const values = query.getAll(name);
  if (values.length > 1) throw new BadSwitch(name, 'given more than once');
  return values[0];
}

function parseWhole(
  query: URLSearchParams,
  name: string,
  { min = 0, max = Number.MAX_SAFE_INTEGER } = {},
): number | undefined {
  const text = single(query, name);
  if (text === undefined) return undefined;
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= min && value <= max)) {
    throw new BadSwitch(name, `must be a whole number from ${min} to ${max}, not "${text}"`);
  }
  return value;
}

function parseChoice<T extends string>(query: URLSearchParams, name: string, choices: T[]): T | undefined {
  const text = single(query, name);
  if (text === undefined) return undefined;
  const choice = choices.find((candidate) => candidate === text);
  if (choice === undefined) throw new BadSwitch(name, `must be ${choices.join(' or ')}, not "${text}"`);
  return choice;
}

function parseFlag(query: URLSearchParams, name: string): boolean {
  return parseChoice(query, name, ['0', '1']) === '1';
}

function parseHeaders(query: URLSearchParams): HeaderPair[] {
  const pairs = query.getAll('header').map(parseHeader);
  const location = single(query, 'location');
  if (location !== undefined) pairs.push(checkHeader('location', ['Location', location]));
  const cost = parseWhole(query, 'cost');
  if (cost !== undefined) pairs.push(['X-Weir-Cost', String(cost)]);
  return pairs;
}

function parseHeader(text: string): HeaderPair {
  const colon = text.indexOf(':');
  if (colon < 1) throw new BadSwitch('header', `must be Name:Value, not "${text}"`);
  const name = text.slice(0, colon);
  if (FRAMING_HEADERS.has(name.toLowerCase())) {
    throw new BadSwitch('header', `${name} follows from the body and cannot be set`);
  }
  return checkHeader('header', [name, text.slice(colon + 1).trim()]);
}

function checkHeader(switchName: string, pair: HeaderPair): HeaderPair {
  try {
    validateHeaderName(pair[0]);
    validateHeaderValue(pair[0], pair[1]);
    return pair;
  } catch (error) {
    throw new BadSwitch(switchName, error instanceof Error ? error.message : String(error));
  }
}

function refuseTwoBodies(path: string, { bytes, stream }: Switches): void {
  const fixed = ['/sse', '/llm', '/_origin'].includes(path);
  if (fixed && bytes !== undefined) throw new BadSwitch('bytes', `${path} has its own body`);
  if (fixed && stream !== undefined) throw new BadSwitch('stream', `${path} has its own body`);
  if (bytes !== undefined && stream !== undefined) throw new BadSwitch('stream', 'cannot combine with bytes');
}
