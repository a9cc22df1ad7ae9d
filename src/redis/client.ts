// Upstash Redis over HTTP for Workers: each command has its own signal, and errors hold no secrets.
import type { Redis } from '@upstash/redis/cloudflare';
import { lazyModule } from '../core/lazy-module.ts';
import { CounterStoreError, OutOfCalls } from '../core/ports/region.ts';
import { withoutCommand, wordsOf } from './redact-error.ts';
import type { Script } from './script.ts';
import type { ScriptCall } from './wire.ts';

export interface UpstashOptions {
  readonly url: string;
  readonly token: string;
}

export interface Client {
  /**
   * Runs a script by its SHA-1. If Redis has lost the script (restart, flush), sends its text once, under the same
   * signal. Every request uses this function: it does what `send` does, without the library's overhead (merging
   * headers, retries, a class for each command).
   */
  script<T>(signal: AbortSignal, run: ScriptRun<T>): Promise<T>;
  /** Sends one command, as a list of words, also without the library. */
  command(signal: AbortSignal, words: readonly string[]): Promise<unknown>;
  /** Several commands in one request. They run in order, but not atomically: each may fail by itself. */
  pipeline(signal: AbortSignal, commands: readonly (readonly string[])[]): Promise<Replied[]>;
  /** Uses the library, which is loaded on first use. For calls that no request waits for. */
  send<T>(signal: AbortSignal, command: (redis: Redis) => Promise<T>): Promise<T>;
  /** Like `pipeline`, through the library. */
  sendAll(signal: AbortSignal, commands: (redis: Redis) => Promise<readonly Entry[]>): Promise<Replied[]>;
}

export interface ScriptRun<T> {
  readonly script: Script;
  readonly call: ScriptCall;
  /** Reads the reply. It is a parameter, because one more promise for each request costs time. */
  readonly read: (reply: unknown) => T;
}

/** The entry of one command in a pipeline with `keepErrors`. */
interface Entry {
  readonly result?: unknown;
  readonly error?: string | undefined;
}

/** The reply to one command of several. */
export type Replied =
  | { readonly result: unknown; readonly error?: undefined }
  | { readonly error: CounterStoreError; readonly result?: undefined };
/** The first word of Redis' error for a script that it does not know. */
const NO_SCRIPT = 'NOSCRIPT';
const NOT_UPSTASH = 'the reply is not what Upstash sends';
/** The runtime's error when a request has used up its 50 (free plan) or 10,000 calls. */
const OUT_OF_SUBREQUESTS = 'Too many subrequests';

/** Redis does not know the script (any more). */
export class ScriptMissing extends CounterStoreError {}

export function createClient({ url, token }: UpstashOptions): Client {
  const library = lazyModule(
    () => import('./library.ts'),
    ({ createLibrary }) => createLibrary(url, token),
  );
  const headers = { Authorization: `Bearer ${token}` };
  // Made once, because the runtime would parse the URL and the headers for each request.
  const one = new Request(url, { method: 'POST', headers });
  const several = new Request(`${url}/pipeline`, { method: 'POST', headers });

  const post = (signal: AbortSignal, to: Request, words: readonly unknown[]) =>
    fetch(to, { body: JSON.stringify(words), signal });

  const attempt = async <T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      throw withoutDetails(error, signal);
    }
  };

  const command: Client['command'] = (signal, words) =>
    attempt(signal, async () => {
      const response = await post(signal, one, words);
      return resultOf(response.ok, JSON.parse(await response.text()));
    });

  const send: Client['send'] = (signal, issued) =>
    attempt(signal, async () => (await library()).issue(signal, issued));
  return {
    async script(signal, { script, call, read }) {
      const words = scriptWords('EVALSHA', script.sha, call);
      let result: unknown;
      try {
        const response = await post(signal, one, words);
        const reply: unknown = JSON.parse(await response.text());
        result = isScriptMissing(reply)
          ? await command(signal, scriptWords('EVAL', script.text, call))
          : resultOf(response.ok, reply);
      } catch (error) {
        throw withoutDetails(error, signal);
      }
      // Outside the `try`, because a bug in `read` is not a failure of Redis.
      return read(result);
    },
    command,
    pipeline: (signal, commands) =>
      attempt(signal, async () => {
        const response = await post(signal, several, commands);
        const reply: unknown = JSON.parse(await response.text());
        if (!response.ok) return resultOf(false, reply) as never;
        if (!Array.isArray(reply) || reply.length !== commands.length)
          throw new CounterStoreError('bad-reply', NOT_UPSTASH);
        return reply.map((entry: Entry) => toReplied(entry, signal));
      }),
    send,
    sendAll: async (signal, commands) =>
      (await send(signal, commands)).map((entry) => toReplied(entry, signal)),
  };
}

export const scriptWords = (
  command: 'EVAL' | 'EVALSHA',
  script: string,
  { keys, args }: ScriptCall,
): string[] => [command, script, String(keys.length), ...keys, ...args];

const entryOf = (reply: unknown): Entry => (typeof reply === 'object' && reply !== null ? reply : {});

const isScriptMissing = (reply: unknown): boolean => String(entryOf(reply).error).startsWith(NO_SCRIPT);

/** Reads Upstash's reply to one command: a result, null included, or an error in words. */
function resultOf(isOk: boolean, reply: unknown): unknown {
  const { result, error } = entryOf(reply);
  if (isOk && error === undefined && result !== undefined) return result;
  if (typeof error === 'string') throw new Error(error);
  throw isOk ? new CounterStoreError('bad-reply', NOT_UPSTASH) : new Error('no words');
}

function toReplied({ result, error }: Entry, signal: AbortSignal): Replied {
  if (error !== undefined) return { error: withoutDetails(new Error(error), signal) };
  return result === undefined
    ? { error: new CounterStoreError('bad-reply', 'a reply has no result') }
    : { result };
}

/** Keeps only the kind of the failure, because the client's messages embed the whole command with its keys. */
function withoutDetails(error: unknown, signal: AbortSignal): CounterStoreError {
  if (error instanceof CounterStoreError) return error;
  const said = error instanceof Error ? withoutCommand(error.message) : '';
  if (said.startsWith(OUT_OF_SUBREQUESTS)) return new OutOfCalls();
  if (said.startsWith(NO_SCRIPT)) return new ScriptMissing('unavailable', 'script not loaded');
  if (signal.aborted) return new CounterStoreError('timeout', 'no answer before the deadline');
  if (isOfTheScript(said)) return new CounterStoreError('script-failed', wordsOf(said));
  if (isBadReply(error, said)) return new CounterStoreError('bad-reply', NOT_UPSTASH);
  return new CounterStoreError('unavailable', 'the command failed');
}

/** Errors of the database itself, even if a command inside the script ran into them. */
const OF_THE_DATABASE = /\b(OOM|READONLY|MISCONF|LOADING|BUSY|NOREPLICAS|MASTERDOWN|CLUSTERDOWN|TRYAGAIN)\b/;

/** Matches no error about an unknown command but EVAL: such an error quotes arguments, which can contain anything. */
const OF_THE_SCRIPT = /^(WEIR_BAD_ARGUMENT\b|ERR (?!unknown command).*script|ERR unknown command .?eval)/is;

/** The database works, but the script is wrong or the database cannot run it. */
const isOfTheScript = (said: string): boolean => OF_THE_SCRIPT.test(said) && !OF_THE_DATABASE.test(said);

/** The client's errors for a reply that is not JSON, has no result, or, for a pipeline, is no list of results. */
function isBadReply(error: unknown, message: string): boolean {
  if (error instanceof SyntaxError || message === 'Request did not return a result') return true;
  if (error instanceof TypeError && /is not a function|^Cannot (read|destructure)/.test(message)) return true;
  return error instanceof Error && error.name === 'UpstashJSONParseError';
}
