// The counters of one region, in Upstash Redis over HTTP.

import reset from '../../lua/reset.lua';
import type { Answer, Check, Outcome } from '../core/counting/check.ts';
import { PROBE_CHECKS } from '../core/counting/counters.ts';
import { ANNOUNCEMENT_KEY, hashTagOf } from '../core/counting/keys.ts';
import {
  type CounterCall,
  type CounterStore,
  CounterStoreError,
  type RulesPointer,
} from '../core/ports/region.ts';
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

// In a Redis Cluster, a script can touch only one hash slot. So Weir makes one call for each subject, still all or
// nothing: if a later subject denies, Weir gives the earlier charges back.

export function splitByHashSlot(store: CounterStore, pointer: Pick<RulesPointer, 'read'>): CounterStore {
  return {
    ...store,
    async run({ withAnnouncement, ...call }, signal) {
      // The announcement is in another hash slot, so reading it takes a call of its own.
      const announced = withAnnouncement ? await readAnnouncement(pointer, signal) : undefined;
      return { ...(await runInSlots(store, call, signal)), announced };
    },
    async reset(keys, signal) {
      for (const key of keys) await store.reset([key], signal);
    },
  };
}

/** Undefined if the announcement cannot be read. Weir counts the checks anyway. */
const readAnnouncement = (pointer: Pick<RulesPointer, 'read'>, signal: AbortSignal) =>
  pointer.read(signal).then(
    (announced) => announced ?? null,
    () => undefined,
  );

/** The checks of one hash slot, and their positions in the call. */
type Group = readonly { readonly check: Check; readonly place: number }[];

/**
 * Runs the groups one after the other. If a group denies a take, Weir gives back the charges of the groups before it,
 * and only peeks at the groups after it.
 */
async function runInSlots(store: CounterStore, call: CounterCall, signal: AbortSignal): Promise<Answer> {
  const all = call.checks.map((check, place) => ({ check, place }));
  const groups = [...Map.groupBy(all, ({ check }) => hashTagOf(check.key)).values()];
  if (groups.length === 1) return store.run(call, signal);
  const outcomes: Outcome[] = [];
  const taken: { readonly group: Group; readonly answer: Answer }[] = [];
  let { operation } = call;
  let nowMs = 0;
  for (const group of groups) {
    const answer = await store.run({ ...call, operation, checks: group.map(({ check }) => check) }, signal);
    nowMs = answer.nowMs;
    // Each outcome has the time of its own slot.
    for (const [i, { place }] of group.entries())
      if (answer.outcomes[i]) outcomes[place] = { ...answer.outcomes[i], nowMs };
    if (operation !== 'take') continue;
    if (group.every(({ check }, i) => answer.outcomes[i]?.allowed || check.isShadow))
      taken.push({ group, answer });
    else {
      for (const one of taken) await giveBack(store, one, { outcomes, nowMs: call.nowMs }, signal);
      operation = 'peek';
    }
  }
  return { nowMs, outcomes };
}

/** Gives the charges of a group back. Its outcomes still say that they would have admitted the request. */
async function giveBack(
  store: CounterStore,
  { group, answer }: { readonly group: Group; readonly answer: Answer },
  { outcomes, nowMs }: { readonly outcomes: Outcome[]; readonly nowMs: number | undefined },
  signal: AbortSignal,
): Promise<void> {
  const charged = group.flatMap(({ check, place }, i) => {
    const { allowed = false, granted = 0 } = answer.outcomes[i] ?? {};
    const refunded = { ...check, cost: check.cost + granted, want: 0, chargedAtMs: answer.nowMs };
    return allowed ? [{ refunded, place }] : [];
  });
  if (charged.length === 0) return;
  const checks = charged.map(({ refunded }) => refunded);
  const told = await store.run({ operation: 'refund', checks, nowMs }, signal);
  for (const [i, { place }] of charged.entries())
    if (told.outcomes[i]) outcomes[place] = { ...told.outcomes[i], granted: 0 };
}
