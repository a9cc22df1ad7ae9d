// For a Redis Cluster, where one script run can touch one slot only: one call for each subject, still
// all-or-nothing. What was charged before a later subject denies is given back.

import type { Answer, Check, Outcome } from '../core/counting/check.ts';
import { hashTagOf } from '../core/counting/keys.ts';
import type { AnnouncementBoard } from '../core/ports/announcement.ts';
import type { CounterCall, CounterStore } from '../core/ports/counter-store.ts';

export function splitBySlot(store: CounterStore, board: Pick<AnnouncementBoard, 'read'>): CounterStore {
  return {
    ...store,
    async run({ withAnnouncement, ...call }, signal) {
      // The announcement is in a slot of its own: here, asking for it is a call more.
      const announced = withAnnouncement ? await readAnnouncement(board, signal) : undefined;
      return { ...(await runInSlots(store, call, signal)), announced };
    },
    async reset(keys, signal) {
      for (const key of keys) await store.reset([key], signal);
    },
  };
}

/** Undefined if it cannot be read: the checks are counted all the same. */
const readAnnouncement = (board: Pick<AnnouncementBoard, 'read'>, signal: AbortSignal) =>
  board.read(signal).then(
    (announced) => announced ?? null,
    () => undefined,
  );

async function runInSlots(store: CounterStore, call: CounterCall, signal: AbortSignal): Promise<Answer> {
  const groups = groupBySlot(call.checks);
  if (groups.length === 1) return store.run(call, signal);
  return call.operation === 'take'
    ? takeAll(store, call, groups, signal)
    : runEach(store, call, groups, signal);
}

/** Places of the checks in the call, by slot. */
type Group = readonly number[];

function groupBySlot(checks: readonly Check[]): Group[] {
  const groups = new Map<string, number[]>();
  checks.forEach((check, i) => {
    const tag = hashTagOf(check.key);
    groups.set(tag, [...(groups.get(tag) ?? []), i]);
  });
  return [...groups.values()];
}

const only = (call: CounterCall, group: Group): CounterCall => ({
  ...call,
  checks: call.checks.filter((_, i) => group.includes(i)),
});

async function runEach(
  store: CounterStore,
  call: CounterCall,
  groups: readonly Group[],
  signal: AbortSignal,
): Promise<Answer> {
  const outcomes: Outcome[] = [];
  let nowMs = 0;
  for (const group of groups) {
    const answer = await store.run(only(call, group), signal);
    nowMs = answer.nowMs;
    place(outcomes, group, answer);
  }
  return { nowMs, outcomes };
}

async function takeAll(
  store: CounterStore,
  call: CounterCall,
  groups: readonly Group[],
  signal: AbortSignal,
): Promise<Answer> {
  const outcomes: Outcome[] = [];
  const taken: { readonly group: Group; readonly answer: Answer }[] = [];
  let nowMs = 0;
  for (const [number, group] of groups.entries()) {
    const answer = await store.run(only(call, group), signal);
    nowMs = answer.nowMs;
    place(outcomes, group, answer);
    if (!passes(only(call, group).checks, answer)) {
      for (const charged of taken) await giveBack(store, call, charged, outcomes, signal);
      for (const later of groups.slice(number + 1))
        place(outcomes, later, await store.run(peekOf(only(call, later)), signal));
      break;
    }
    taken.push({ group, answer });
  }
  return { nowMs, outcomes };
}

const peekOf = (call: CounterCall): CounterCall => ({ ...call, operation: 'peek' });

const passes = (checks: readonly Check[], { outcomes }: Answer) =>
  checks.every((check, i) => outcomes[i]?.allowed || check.log);

/** Takes back what a group was charged; its checks still say that they would have let the request pass. */
async function giveBack(
  store: CounterStore,
  call: CounterCall,
  { group, answer }: { readonly group: Group; readonly answer: Answer },
  outcomes: Outcome[],
  signal: AbortSignal,
): Promise<void> {
  const charged = group.flatMap((place, i) => (answer.outcomes[i]?.allowed ? [{ place, i }] : []));
  if (charged.length === 0) return;
  const checks = charged.flatMap(({ place, i }) => {
    const check = call.checks[place];
    const granted = answer.outcomes[i]?.granted ?? 0;
    return check ? [{ ...check, cost: check.cost + granted, want: 0, chargedAtMs: answer.nowMs }] : [];
  });
  const refund = { operation: 'refund', checks, nowMs: call.nowMs } as const;
  const { outcomes: refunded } = await store.run(refund, signal);
  charged.forEach(({ place }, i) => {
    const outcome = refunded[i];
    if (outcome) outcomes[place] = { ...outcome, granted: 0 };
  });
}

/** Puts the outcomes of a group in their places, each with the time of its slot. */
function place(outcomes: Outcome[], group: Group, { nowMs, ...answer }: Answer): void {
  group.forEach((i, j) => {
    const outcome = answer.outcomes[j];
    if (outcome) outcomes[i] = { ...outcome, nowMs };
  });
}
