// Upstash Redis over HTTP, made fit for Workers: one signal for each command, and errors that hold no secrets.
import { Redis } from '@upstash/redis/cloudflare';
import { CounterStoreError, OutOfCalls } from '../core/ports/counter-store.ts';
import { withoutCommand, wordsOf } from './server-words.ts';

export interface UpstashOptions {
  readonly url: string;
  readonly token: string;
}

export interface Client {
  /**
   * One command, as a list of words. The way of every request: it does what `send` does, without what the library adds
   * for others (headers merged anew, retries, a class for each command), which takes a third of the time of a call.
   */
  command(signal: AbortSignal, words: readonly string[]): Promise<unknown>;
  send<T>(signal: AbortSignal, command: (redis: Redis) => Promise<T>): Promise<T>;
  /** Several commands in one request. They run in their order, but not as one: each may fail by itself. */
  sendAll(signal: AbortSignal, commands: (redis: Redis) => Promise<readonly Entry[]>): Promise<Replied[]>;
}

/** What a pipeline with `keepErrors` has for each command. */
interface Entry {
  readonly result?: unknown;
  readonly error?: string | undefined;
}

/** The reply to one command of several. */
export type Replied =
  | { readonly result: unknown; readonly error?: undefined }
  | { readonly error: CounterStoreError; readonly result?: undefined };
const NOT_UPSTASH = 'the reply is not what Upstash sends';
/** What the runtime says to a request that has used up its 50 (free plan) or 10,000 calls. */
const OUT_OF_SUBREQUESTS = 'Too many subrequests';

/** Redis does not know the script (any more). */
export class ScriptMissing extends CounterStoreError {}

export function createClient({ url, token }: UpstashOptions): Client {
  let nextSignal: AbortSignal | undefined;
  const redis = new Redis({
    url,
    token,
    // Auto-pipelining would join commands of different requests in one promise: forbidden on Workers.
    enableAutoPipelining: false,
    // A retried take could charge twice, and its backoff knows nothing of our deadline.
    retry: { retries: 0 },
    automaticDeserialization: false,
    responseEncoding: false,
    readYourWrites: false,
    enableTelemetry: false,
    // Only a function makes an abort throw; a plain signal turns it into a reply that looks like success.
    signal: () => nextSignal ?? AbortSignal.abort(),
  });

  const send: Client['send'] = async (signal, command) => {
    try {
      // The client reads its signal synchronously while the command is being issued: no other request can
      // come between these two lines.
      nextSignal = signal;
      return await command(redis);
    } catch (error) {
      throw withoutDetails(error, signal);
    }
  };
  const headers = new Headers({ Authorization: `Bearer ${token}` });
  const command: Client['command'] = async (signal, words) => {
    try {
      const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(words), signal });
      return resultOf(response.ok, JSON.parse(await response.text()));
    } catch (error) {
      throw withoutDetails(error, signal);
    }
  };
  return {
    command,
    send,
    sendAll: async (signal, commands) =>
      (await send(signal, commands)).map((entry) => toReplied(entry, signal)),
  };
}

/** What Upstash answers one command with: a result, null included, or an error in words. */
function resultOf(isOk: boolean, reply: unknown): unknown {
  const { result, error } = (typeof reply === 'object' && reply !== null ? reply : {}) as Entry;
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

/** The client's messages embed the whole command, keys and all: only what kind of failure it was goes on. */
function withoutDetails(error: unknown, signal: AbortSignal): CounterStoreError {
  if (error instanceof CounterStoreError) return error;
  const said = error instanceof Error ? withoutCommand(error.message) : '';
  if (said.startsWith(OUT_OF_SUBREQUESTS)) return new OutOfCalls();
  if (said.startsWith('NOSCRIPT')) return new ScriptMissing('unavailable', 'script not loaded');
  if (signal.aborted) return new CounterStoreError('timeout', 'no answer before the deadline');
  if (isOfTheScript(said)) return new CounterStoreError('script-failed', wordsOf(said));
  if (isBadReply(error, said)) return new CounterStoreError('bad-reply', NOT_UPSTASH);
  return new CounterStoreError('unavailable', 'the command failed');
}

/** These say how the database is doing, also if it was a command within the script that met them. */
const OF_THE_DATABASE = /\b(OOM|READONLY|MISCONF|LOADING|BUSY|NOREPLICAS|MASTERDOWN|CLUSTERDOWN|TRYAGAIN)\b/;

/** An unknown command is quoted with its arguments, which can read like anything. */
const OF_THE_SCRIPT = /^(WEIR_BAD_ARGUMENT\b|ERR (?!unknown command).*script|ERR unknown command .?eval)/is;

/** The database is well; what it was given to run is not, or it cannot run that. */
const isOfTheScript = (said: string): boolean => OF_THE_SCRIPT.test(said) && !OF_THE_DATABASE.test(said);

/** Not JSON, or JSON without a result or, for a pipeline, no list of them: this is how the client tells. */
function isBadReply(error: unknown, message: string): boolean {
  if (error instanceof SyntaxError || message === 'Request did not return a result') return true;
  if (error instanceof TypeError && /is not a function|^Cannot (read|destructure)/.test(message)) return true;
  return error instanceof Error && error.name === 'UpstashJSONParseError';
}
