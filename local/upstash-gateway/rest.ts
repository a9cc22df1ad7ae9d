// The Upstash REST API: turns an HTTP request into Redis commands, and their replies into the answer.
import { timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { BadRequestError, createCommand, parseCommand, parseCommandList, refusal } from './commands.ts';
import type { LockNeeds } from './lock-needs.ts';
import type { Locks } from './locks.ts';
import {
  type Argument,
  type RedisCommand,
  RedisDownError,
  type RedisLink,
  type Reply,
} from './redis-link.ts';
import { type Answer, type Encoding, renderError, renderList, renderSingle } from './replies.ts';
import type { Scripts } from './scripts.ts';

export interface RestRequest {
  method: string;
  url: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

export interface RestOptions {
  token: string;
  link: RedisLink;
  scripts: Scripts;
  locking?: Locking | undefined;
  /** See faults.ts. */
  scriptError?: string | undefined;
}

export interface Locking {
  readonly locks: Locks;
  readonly needs: LockNeeds;
}

const METHODS = new Set(['HEAD', 'GET', 'POST', 'PUT']);

export async function answerRest(request: RestRequest, options: RestOptions): Promise<Answer> {
  const [path = '', query = ''] = request.url.split(/\?(.*)/s);
  const params = new URLSearchParams(query);
  if (!METHODS.has(request.method)) return renderError(405, `ERR method ${request.method} is not allowed`);
  if (!isAuthorized(request.headers, params, options.token))
    return renderError(401, 'WRONGPASS invalid or missing auth token');
  try {
    return await execute({ ...request, path, params }, options);
  } catch (error) {
    if (error instanceof BadRequestError) return renderError(400, error.message);
    if (error instanceof RedisDownError) return renderError(503, `ERR ${error.message}`);
    throw error;
  }
}

function isAuthorized(headers: IncomingHttpHeaders, params: URLSearchParams, token: string): boolean {
  const bearer = /^Bearer\s+(.*)$/i.exec(headers.authorization ?? '')?.[1];
  const given = Buffer.from(bearer ?? params.get('_token') ?? '');
  const expected = Buffer.from(token);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

type LocatedRequest = RestRequest & { path: string; params: URLSearchParams };

async function execute(request: LocatedRequest, options: RestOptions): Promise<Answer> {
  const encoding = readEncoding(request.headers);
  const hasBody = request.method === 'POST' || request.method === 'PUT';
  if (hasBody && request.path === '/pipeline') {
    return renderList(await runInOrder(parseCommandList(request.body), options), encoding);
  }
  if (hasBody && request.path === '/multi-exec') {
    const replies = await runAtomically(parseCommandList(request.body), options);
    return replies instanceof Error ? renderSingle(replies, encoding) : renderList(replies, encoding);
  }
  const inBody = hasBody && request.path === '/';
  const command = inBody ? parseCommand(request.body) : parsePath(request);
  return renderSingle(await runOne(command, options), encoding);
}

function readEncoding(headers: IncomingHttpHeaders): Encoding {
  const format = headers['upstash-response-format'] ?? 'json';
  if (format !== 'json') throw new BadRequestError(`ERR response format '${format}' is not supported here`);
  return headers['upstash-encoding'] === 'base64' ? 'base64' : 'utf8';
}

/** `/set/key/value?EX=100`. A raw body comes after the path and before the query. */
function parsePath({ path, params, body }: LocatedRequest): RedisCommand {
  const [name, ...args] = path.slice(1).split('/').map(decodeSegment);
  const values: Argument[] = body.length > 0 ? [...args, body] : args;
  for (const [key, value] of params) {
    if (key !== '_token') values.push(...(value === '' ? [key] : [key, value]));
  }
  return createCommand(name, values);
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new BadRequestError('ERR failed to parse: the path is not valid percent-encoding');
  }
}

/** Runs commands one after the other, so that none overtakes a command that waits for a lock. */
async function runInOrder(commands: readonly RedisCommand[], options: RestOptions): Promise<Reply[]> {
  const replies: Reply[] = [];
  for (const command of commands) replies.push(await runOne(command, options));
  return replies;
}

async function runOne(
  command: RedisCommand,
  { link, scripts, locking, scriptError }: RestOptions,
): Promise<Reply> {
  const refused = refusal(command);
  if (refused !== undefined) return refused;
  if (scriptError !== undefined && /^EVAL/i.test(command[0])) return new Error(scriptError);
  const translated = scripts.translate(command);
  const run = async () => translated.restore(await link.send(translated.command));
  return locking ? locking.locks.run(await locking.needs.of(command), run) : run();
}

async function runAtomically(commands: RedisCommand[], options: RestOptions): Promise<Reply[] | Error> {
  const { link, scripts, locking } = options;
  const refused = commands.map(refusal).find((error) => error !== undefined);
  if (refused !== undefined) return refused;
  const translated = commands.map((command) => scripts.translate(command));
  const run = () => link.transaction(translated.map(({ command }) => command));
  const replies = locking
    ? await locking.locks.run(await locking.needs.ofTransaction(commands), run)
    : await run();
  if (replies instanceof Error) return replies;
  return replies.map((reply, index) => translated[index]?.restore(reply) ?? reply);
}
