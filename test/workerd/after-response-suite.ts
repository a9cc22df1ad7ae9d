// The gateway passes work on charges to waitUntil. The runtime drops all other work after the response. The store
// answers late, so work that nobody waits for would be missing at the end.
import { describe, expect, it } from 'vitest';
import type { RuleFields } from '../../local/rules.ts';
import type { Operation } from '../../src/core/counting/check.ts';
import { type CounterStore, operationsBy } from '../../src/core/ports/region.ts';
import type { Ledger } from '../../src/limiter/ledger.ts';
import { clientGone, type ProxyResult } from '../../src/proxy/proxy.ts';
import { createCheck, createDecision, createResult } from '../http/headers-harness.ts';
import { type Situation, send } from './gateway-harness.ts';

const LATE_MS = 30;

interface Done extends Omit<Situation, 'decision' | 'charge'> {
  /** The store has not answered, so it may have charged the request. */
  readonly isInDoubt?: boolean;
}

/** What was done in the end for a request under this rule. */
async function doneFor(rule: RuleFields, { isInDoubt = false, ...situation }: Done = {}) {
  const done: [operation: Operation, cost: number | undefined][] = [];
  const store: CounterStore = {
    reset: async () => {},
    probe: async () => {},
    ...operationsBy(async (operation, { checks }) => {
      await scheduler.wait(LATE_MS);
      done.push([operation, checks[0]?.cost]);
      return { nowMs: 0, outcomes: [] };
    }),
  };
  const check = { ...createCheck({ cost: 3, ...rule }), seatId: 'a-seat-of-sixtee' };
  const decision = createDecision([{ ...createResult(rule), check }]);
  const charge = (ledger: Ledger) =>
    isInDoubt ? ledger.noteDoubt(store, [check]) : ledger.noteCharge(store, check, 0);
  await send({ decision, charge, ...situation });
  return done;
}

const answering = (status: number, cost?: number) => async (): Promise<ProxyResult> => ({
  kind: 'answered',
  response: new Response('x', { status, headers: cost === undefined ? {} : { 'X-Weir-Cost': String(cost) } }),
});
const failing = async (): Promise<ProxyResult> => ({
  kind: 'failed',
  reason: 'client-gone',
  response: clientGone(),
});

const SETTLED = { costFromOrigin: true };
const REFUNDED = { refundOnError: true };
const HELD = { algorithm: 'concurrency' } as const;
const QUEUED = { action: 'throttle', algorithm: 'leaky-bucket' } as const;

describe('after the response there is', () => {
  it.each<[string, RuleFields, Done, [Operation, number][]]>([
    ['a charge of the extra cost', SETTLED, { forward: answering(200, 5) }, [['settle', 2]]],
    ['a refund of the saved cost', SETTLED, { forward: answering(200, 1) }, [['refund', 2]]],
    [
      'a refund of a request that did not reach the origin',
      REFUNDED,
      { forward: answering(521) },
      [['refund', 3]],
    ],
    ['a refund to a client that has left', REFUNDED, { isGone: true }, [['refund', 3]]],
    ['a refund of a turn to a client that has left', QUEUED, { isGone: true }, [['refund', 3]]],
    ['a release after the answer', HELD, {}, [['refund', 3]]],
    ['a release for a client that has left', HELD, { isGone: true }, [['refund', 3]]],
    ['a release after a failure', HELD, { forward: failing }, [['refund', 3]]],
    [
      'a release in a region that did not answer and may hold a seat',
      HELD,
      { isInDoubt: true },
      [['refund', 3]],
    ],
    ['a release after a bug', HELD, { forward: () => Promise.reject(new Error('x')) }, [['refund', 3]]],
  ])('%s', async (_, rule, situation, expected) => {
    expect(await doneFor(rule, situation)).toEqual(expected);
  });
});

describe('after the response nothing is done about', () => {
  it.each<[string, RuleFields, Done]>([
    ['a request that cost as much as it was charged', SETTLED, { forward: answering(200, 3) }],
    ['a request whose cost the origin does not name', SETTLED, { forward: answering(200) }],
    ['a request that the origin answered with an error', REFUNDED, { forward: answering(503) }],
    ['a request that reached the origin before the client left', REFUNDED, { forward: failing }],
    ['a charge of a rule without refunds', {}, { isGone: true }],
    ['the first cost of a client that has left', SETTLED, { isGone: true }],
  ])('%s', async (_, rule, situation) => {
    expect(await doneFor(rule, situation)).toEqual([]);
  });
});

it.each<[string, RuleFields]>([
  ['nothing is left to do', {}],
  ['its cost is named by the origin', SETTLED],
  ['it holds a seat', HELD],
  ['it waits for its turn', QUEUED],
])('a request whose client has left is not passed on to the origin: %s', async (_, rule) => {
  let isPassedOn = false;
  const forward = async () => {
    isPassedOn = true;
    return failing();
  };
  await doneFor(rule, { isGone: true, forward });
  expect(isPassedOn).toBe(false);
});
