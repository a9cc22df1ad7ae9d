// The counters of one region, in Upstash Redis over HTTP.

import reset from '../../lua/reset.lua';
import type {
  Answer,
  Check,
  CheckOf,
  Operation,
  Outcome,
  ReplyOf,
  TakeCheck,
} from '../core/counting/check.ts';
import { PROBE_CHECKS } from '../core/counting/counters.ts';
import { ANNOUNCEMENT_KEY, hashTagOf } from '../core/counting/keys.ts';
import {
  type AnswerOf,
  type CallOf,
  type CountCall,
  type CounterOperations,
  type CounterStore,
  CounterStoreError,
  operationsBy,
  type RulesPointer,
} from '../core/ports/region.ts';
import { type Client, type Replied, ScriptMissing, type ScriptRun, scriptWords } from './client.ts';
import { loadScript, type Script } from './script.ts';
import { parseAnswer, toScriptCall } from './wire.ts';

export function createUpstashStore(client: Client): CounterStore {
  let script: Script | undefined;

  /** Not an asynchronous function, because one more promise for each request costs time. */
  const run = <O extends Operation>(
    operation: O,
    call: CallOf<O>,
    signal: AbortSignal,
  ): Promise<AnswerOf<O>> => {
    if (!script) return composeFirst(operation, call, signal);
    // A bug rejects the promise, as it would in an asynchronous function.
    try {
      return runWith(script, operation, call, signal);
    } catch (error) {
      return Promise.reject(error);
    }
  };

  const composeFirst = async <O extends Operation>(operation: O, call: CallOf<O>, signal: AbortSignal) => {
    script = await loadScript();
    return runWith(script, operation, call, signal);
  };

  const runWith = <O extends Operation>(
    made: Script,
    operation: O,
    call: CallOf<O>,
    signal: AbortSignal,
  ): Promise<AnswerOf<O>> => {
    const { withAnnouncement }: CountCall = call;
    const run = {
      script: made,
      call: toScriptCall<O>(operation, call),
      read: (reply: unknown) => parseAnswer(operation, reply, call.checks),
    };
    return withAnnouncement ? readAndCount(client, signal, run) : client.script(signal, run);
  };

  const operations = operationsBy(run);
  return {
    ...operations,

    async reset(keys, signal) {
      // Sends the whole script, because resets are rare.
      if (keys.length > 0) await client.send(signal, (redis) => redis.eval(reset, [...keys], []));
    },

    async probe(signal) {
      await operations.take({ checks: PROBE_CHECKS }, signal);
    },
  };
}

/**
 * Makes one HTTP request, too. The announcement is not a key of the script, because Upstash locks such keys
 * exclusively, and all isolates of a region would queue for it. A GET shares its lock with every other GET.
 */
async function readAndCount<R>(
  client: Client,
  signal: AbortSignal,
  run: ScriptRun<Answer<R>>,
): Promise<Answer<R>> {
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
  const count =
    (operation: 'take' | 'peek'): CounterStore['take'] =>
    async ({ withAnnouncement, ...call }, signal) => {
      // The announcement is in another hash slot, so reading it takes a call of its own.
      const announced = withAnnouncement ? await readAnnouncement(pointer, signal) : undefined;
      return { ...(await countInSlots(store, operation, call, signal)), announced };
    };
  return {
    ...operationsBy((operation, call, signal) => runInSlots(store, operation, call, signal)),
    take: count('take'),
    peek: count('peek'),
    async reset(keys, signal) {
      for (const key of keys) await store.reset([key], signal);
    },
    probe: (signal) => store.probe(signal),
  };
}

/** Undefined if the announcement cannot be read. Weir counts the checks anyway. */
const readAnnouncement = (pointer: Pick<RulesPointer, 'read'>, signal: AbortSignal) =>
  pointer.read(signal).then(
    (announced) => announced ?? null,
    () => undefined,
  );

/** The checks of one hash slot, and their positions in the call. */
type Group<C extends Check> = readonly { readonly check: C; readonly place: number }[];

const groupsOf = <C extends Check>(checks: readonly C[]): Group<C>[] => [
  ...Map.groupBy(
    checks.map((check, place) => ({ check, place })),
    ({ check }) => hashTagOf(check.key),
  ).values(),
];

/** Runs the groups one after the other. */
async function runInSlots<O extends Operation>(
  store: CounterOperations,
  operation: O,
  call: CallOf<O>,
  signal: AbortSignal,
): Promise<AnswerOf<O>> {
  const outcomes: ReplyOf<O>[] = [];
  let nowMs = 0;
  for (const group of groupsOf<CheckOf<O>>(call.checks)) {
    const ofGroup = { ...call, checks: group.map(({ check }) => check) };
    const answer = await store[operation](ofGroup, signal);
    nowMs = answer.nowMs;
    for (const [i, { place }] of group.entries()) {
      const outcome = answer.outcomes[i];
      if (outcome) outcomes[place] = outcome;
    }
  }
  return { nowMs, outcomes };
}

/**
 * Like `runInSlots`. If a group denies a take, Weir gives back the charges of the groups before it, and only peeks at
 * the groups after it.
 */
async function countInSlots(
  store: CounterStore,
  operation: 'take' | 'peek',
  { checks }: CallOf<'take'>,
  signal: AbortSignal,
): Promise<Answer> {
  const groups = groupsOf(checks);
  const outcomes: Outcome[] = [];
  const taken: Taken[] = [];
  let counts = operation;
  let nowMs = 0;
  for (const group of groups) {
    const answer = await store[counts]({ checks: group.map(({ check }) => check) }, signal);
    if (groups.length === 1) return answer;
    nowMs = answer.nowMs;
    // Each outcome has the time of its own slot.
    for (const [i, { place }] of group.entries())
      if (answer.outcomes[i]) outcomes[place] = { ...answer.outcomes[i], nowMs };
    if (counts === 'peek') continue;
    if (group.every(({ check }, i) => answer.outcomes[i]?.allowed || check.isShadow))
      taken.push({ group, answer });
    else {
      for (const one of taken) await giveBack(store, one, outcomes, signal);
      counts = 'peek';
    }
  }
  return { nowMs, outcomes };
}

interface Taken {
  readonly group: Group<TakeCheck>;
  readonly answer: Answer;
}

/** Gives the charges of a group back. Its outcomes still say that they would have admitted the request. */
async function giveBack(
  store: CounterStore,
  { group, answer }: Taken,
  outcomes: Outcome[],
  signal: AbortSignal,
): Promise<void> {
  const charged = group.flatMap(({ check: { leaseUnits: _, ...check }, place }, i) => {
    const { allowed = false, granted = 0 } = answer.outcomes[i] ?? {};
    const refunded = { ...check, cost: check.cost + granted, chargedAtMs: answer.nowMs };
    return allowed ? [{ refunded, place }] : [];
  });
  if (charged.length === 0) return;
  const checks = charged.map(({ refunded }) => refunded);
  const balances = (await store.refund({ checks }, signal)).outcomes;
  for (const [i, { place }] of charged.entries()) {
    const outcome = outcomes[place];
    if (outcome && balances[i]) outcomes[place] = { ...outcome, ...balances[i], granted: 0 };
  }
}
