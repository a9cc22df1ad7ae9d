// The counters of one region, in Upstash Redis over HTTP.
import reset from '../../lua/reset.lua';
import type { Answer } from '../core/counting/check.ts';
import { ANNOUNCEMENT_KEY } from '../core/counting/keys.ts';
import { PROBE_CHECKS } from '../core/counting/probe.ts';
import { type CounterStore, CounterStoreError } from '../core/ports/counter-store.ts';
import { type Client, type Replied, ScriptMissing } from './client.ts';
import { composeScript, type Script } from './script.ts';
import { parseAnswer, type ScriptCall, toScriptCall } from './wire.ts';

export function createUpstashStore(client: Client): CounterStore {
  let script: Script | undefined;
  const run: CounterStore['run'] = async (call, signal) => {
    script ??= await composeScript();
    const how = { client, script, call: toScriptCall(call), signal };
    if (call.withAnnouncement) {
      const { reply, announced } = await readAndCount(how);
      return parseAnswer(reply, call.checks, announced);
    }
    let reply: unknown;
    try {
      reply = await client.command(signal, scriptWords('EVALSHA', script.sha, how.call));
    } catch (error) {
      reply = await sendText(error, how);
    }
    return parseAnswer(reply, call.checks);
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

interface Run {
  readonly client: Client;
  readonly script: Script;
  readonly call: ScriptCall;
  readonly signal: AbortSignal;
}

interface Counted extends Pick<Answer, 'announced'> {
  readonly reply: unknown;
}

/**
 * Also one HTTP request. The announcement is not a key of the script, because Upstash locks such keys exclusively, and
 * all isolates of a region would queue for it. A GET shares its lock with every other GET.
 */
async function readAndCount(run: Run): Promise<Counted> {
  const { client, script, call, signal } = run;
  const [announcement, counted] = await client.pipeline(signal, [
    ['GET', ANNOUNCEMENT_KEY],
    scriptWords('EVALSHA', script.sha, call),
  ]);
  if (!announcement || !counted) throw new CounterStoreError('bad-reply', 'expected two replies');
  return {
    announced: toAnnounced(announcement),
    reply: counted.error ? await sendText(counted.error, run) : counted.result,
  };
}

/** If Redis has lost the script (restart, flush), sends EVAL once with the text, under the same signal. */
async function sendText(error: unknown, { client, script, call, signal }: Run): Promise<unknown> {
  if (!(error instanceof ScriptMissing)) throw error;
  return client.command(signal, scriptWords('EVAL', script.text, call));
}

const scriptWords = (command: 'EVAL' | 'EVALSHA', script: string, { keys, args }: ScriptCall): string[] => [
  command,
  script,
  String(keys.length),
  ...keys,
  ...args,
];

/** Undefined if the announcement cannot be read. The checks were counted all the same. */
const toAnnounced = ({ result }: Replied): Answer['announced'] =>
  typeof result === 'string' || result === null ? result : undefined;
