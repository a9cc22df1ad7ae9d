// The counters of one region, in Upstash Redis over HTTP.
import type { CounterStore } from '../core/counter-store.ts';
import { PROBE_CHECKS } from '../core/probe.ts';
import { type Client, ScriptMissing } from './client.ts';
import { composeScript, type Script } from './script.ts';
import { parseAnswer, type ScriptCall, toScriptCall } from './wire.ts';

export function createUpstashStore(client: Client): CounterStore {
  let script: Script | undefined;
  const run: CounterStore['run'] = async (call, signal) => {
    script ??= await composeScript();
    return parseAnswer(await evaluate(client, script, toScriptCall(call), signal), call.checks);
  };

  return {
    run,

    async reset(keys, signal) {
      if (keys.length > 0) await client.send(signal, (redis) => redis.unlink(...keys));
    },

    async probe(signal) {
      await run({ operation: 'take', checks: PROBE_CHECKS }, signal);
    },
  };
}

/** EVALSHA; if Redis has lost the script (restart, flush), EVAL once with its text, under the same signal. */
async function evaluate(
  client: Client,
  { text, sha }: Script,
  { keys, args }: ScriptCall,
  signal: AbortSignal,
): Promise<unknown> {
  try {
    return await client.send(signal, (redis) => redis.evalsha(sha, keys, args));
  } catch (error) {
    if (!(error instanceof ScriptMissing)) throw error;
    return await client.send(signal, (redis) => redis.eval(text, keys, args));
  }
}
