// The counters of one region, in Upstash Redis over HTTP.
import reset from '../../lua/reset.lua';
import type { Answer } from '../core/counting/check.ts';
import { ANNOUNCEMENT_KEY } from '../core/counting/keys.ts';
import { PROBE_CHECKS } from '../core/counting/probe.ts';
import { type CounterCall, type CounterStore, CounterStoreError } from '../core/ports/counter-store.ts';
import { type Client, type Replied, ScriptMissing, type ScriptRun } from './client.ts';
import { composeScript, type Script } from './script.ts';
import { parseAnswer, toScriptCall } from './wire.ts';

export function createUpstashStore(client: Client): CounterStore {
  let script: Script | undefined;
  /** Not asynchronous itself, because one more promise for each request costs. */
  const run: CounterStore['run'] = (call, signal) =>
    script ? runWith(script, call, signal) : composeFirst(call, signal);

  const composeFirst: CounterStore['run'] = async (call, signal) => {
    script = await composeScript();
    return runWith(script, call, signal);
  };

  const runWith = ({ sha, text }: Script, call: CounterCall, signal: AbortSignal): Promise<Answer> => {
    const { checks, withAnnouncement } = call;
    const words = toWords(call);
    if (withAnnouncement) return readAndCount(client, signal, { sha, text, words, checks });
    return client.script(signal, { sha, text, words, read: (reply) => parseAnswer(reply, checks) });
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

interface Run extends Pick<ScriptRun<Answer>, 'sha' | 'text' | 'words'>, Pick<CounterCall, 'checks'> {}

/**
 * Also one HTTP request. The announcement is not a key of the script, because Upstash locks such keys exclusively, and
 * all isolates of a region would queue for it. A GET shares its lock with every other GET.
 */
async function readAndCount(client: Client, signal: AbortSignal, run: Run): Promise<Answer> {
  const { sha, text, words, checks } = run;
  const [announcement, counted] = await client.pipeline(signal, [
    ['GET', ANNOUNCEMENT_KEY],
    ['EVALSHA', sha, ...words],
  ]);
  if (!announcement || !counted) throw new CounterStoreError('bad-reply', 'expected two replies');
  if (counted.error && !(counted.error instanceof ScriptMissing)) throw counted.error;
  const reply = counted.error ? await client.command(signal, ['EVAL', text, ...words]) : counted.result;
  return parseAnswer(reply, checks, toAnnounced(announcement));
}

/** The number of keys, the keys, and the arguments. */
function toWords(call: CounterCall): string[] {
  const { keys, args } = toScriptCall(call);
  return [String(keys.length), ...keys, ...args];
}

/** Undefined if the announcement cannot be read. The checks were counted all the same. */
const toAnnounced = ({ result }: Replied): Answer['announced'] =>
  typeof result === 'string' || result === null ? result : undefined;
