// The counters of one region, in Upstash Redis over HTTP.
import reset from '../../lua/reset.lua';
import type { Answer } from '../core/counting/check.ts';
import { ANNOUNCEMENT_KEY } from '../core/counting/keys.ts';
import { PROBE_CHECKS } from '../core/counting/probe.ts';
import { type CounterCall, type CounterStore, CounterStoreError } from '../core/ports/counter-store.ts';
import { type Client, type Replied, ScriptMissing, type ScriptRun, scriptWords } from './client.ts';
import { composeScript, type Script } from './script.ts';
import { parseAnswer, toScriptCall } from './wire.ts';

export function createUpstashStore(client: Client): CounterStore {
  let script: Script | undefined;
  /** Not an asynchronous function, because one more promise for each request costs time. */
  const run: CounterStore['run'] = (call, signal) =>
    script ? runSafely(script, call, signal) : composeFirst(call, signal);

  /** A bug rejects the promise, as it would in an asynchronous function. */
  const runSafely = (made: Script, call: CounterCall, signal: AbortSignal): Promise<Answer> => {
    try {
      return runWith(made, call, signal);
    } catch (error) {
      return Promise.reject(error);
    }
  };

  const composeFirst: CounterStore['run'] = async (call, signal) => {
    script = await composeScript();
    return runWith(script, call, signal);
  };

  const runWith = (made: Script, asked: CounterCall, signal: AbortSignal): Promise<Answer> => {
    const { checks, withAnnouncement } = asked;
    const run = {
      script: made,
      call: toScriptCall(asked),
      read: (reply: unknown) => parseAnswer(reply, checks),
    };
    return withAnnouncement ? readAndCount(client, signal, run) : client.script(signal, run);
  };

  return {
    run,

    async reset(keys, signal) {
      // Sends the whole script, because resets are rare.
      if (keys.length > 0) await client.send(signal, (redis) => redis.eval(reset, [...keys], []));
    },

    async probe(signal) {
      await run({ operation: 'take', checks: PROBE_CHECKS }, signal);
    },
  };
}

/**
 * Makes one HTTP request, too. The announcement is not a key of the script, because Upstash locks such keys
 * exclusively, and all isolates of a region would queue for it. A GET shares its lock with every other GET.
 */
async function readAndCount(client: Client, signal: AbortSignal, run: ScriptRun<Answer>): Promise<Answer> {
  const { script, call, read } = run;
  const [announcement, counted] = await client.pipeline(signal, [
    ['GET', ANNOUNCEMENT_KEY],
    scriptWords('EVALSHA', script.sha, call),
  ]);
  if (!announcement || !counted) throw new CounterStoreError('bad-reply', 'expected two replies');
  if (counted.error && !(counted.error instanceof ScriptMissing)) throw counted.error;
  const reply = counted.error
    ? await client.command(signal, scriptWords('EVAL', script.text, call))
    : counted.result;
  const { nowMs, outcomes } = read(reply);
  return { nowMs, outcomes, announced: toAnnounced(announcement) };
}

/** Undefined if the announcement cannot be read. The region has counted the checks anyway. */
const toAnnounced = ({ result }: Replied): Answer['announced'] =>
  typeof result === 'string' || result === null ? result : undefined;
