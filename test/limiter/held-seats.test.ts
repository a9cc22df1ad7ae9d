// Seats of open connections: Weir renews them, and gives them up for good when another connection has them.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { type CounterStore, OutOfCalls } from '../../src/core/ports/region.ts';
import { holdSeats } from '../../src/limiter/ledger.ts';
import { createNotingStore, type NotingStore, openLedger, seat } from './ledger-harness.ts';

const THIRD_MS = seat.windowMs / 3;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A connection whose seat was taken in this store. */
async function hold(store: NotingStore) {
  await store.take({ checks: [seat] }, AbortSignal.timeout(1_000));
  const { ledger, errors } = openLedger({ store, checks: [seat] });
  const held = holdSeats(ledger);
  if (!held) throw new Error('there is nothing to hold');
  return { held, errors, operations: () => store.asked.map(({ operation }) => operation) };
}

const forget = (store: CounterStore) => store.refund({ checks: [seat] }, AbortSignal.timeout(1_000));
const takeAll = (store: CounterStore) => {
  const everything = { ...seat, seatId: 'somebody-else-16', cost: seat.limit };
  return store.take({ checks: [everything] }, AbortSignal.timeout(1_000));
};

it('a seat is renewed three times within its lifetime, and given back in the end', async () => {
  const { held, operations } = await hold(createNotingStore());
  await vi.advanceTimersByTimeAsync(seat.windowMs);
  expect(operations()).toEqual(['take', 'renew', 'renew', 'renew']);
  expect(held.lost.aborted).toBe(false);
  await held.end();
  await vi.advanceTimersByTimeAsync(seat.windowMs);
  expect(operations()).toEqual(['take', 'renew', 'renew', 'renew', 'refund']);
});

it('a seat that Redis has forgotten is taken again', async () => {
  const store = createNotingStore();
  const { held, operations } = await hold(store);
  await forget(store);
  await vi.advanceTimersByTimeAsync(2 * THIRD_MS);
  expect(operations()).toEqual(['take', 'refund', 'renew', 'take', 'renew']);
  expect(held.lost.aborted).toBe(false);
  await held.end();
});

it('a connection loses a seat that another connection has taken, and does not ask for it again', async () => {
  const store = createNotingStore();
  const { held, operations } = await hold(store);
  await forget(store);
  await takeAll(store);
  await vi.advanceTimersByTimeAsync(THIRD_MS);
  expect(held.lost.aborted).toBe(true);
  const before = operations().length;
  await vi.advanceTimersByTimeAsync(seat.windowMs);
  expect(operations()).toHaveLength(before);
  await held.end();
});

it('a seat is not lost while Redis does not answer', async () => {
  const store = createNotingStore();
  const { held, errors } = await hold(store);
  store.losesAnswers = 100;
  await vi.advanceTimersByTimeAsync(2 * seat.windowMs);
  expect(held.lost.aborted).toBe(false);
  expect(errors).toHaveLength(6);
  store.losesAnswers = 0;
  await held.end();
});

it('a seat is lost if it can never be renewed again, because this request may make no more calls', async () => {
  const store = { ...createNotingStore(), renew: () => Promise.reject(new OutOfCalls()) };
  const { held } = await hold(store);
  await vi.advanceTimersByTimeAsync(THIRD_MS);
  expect(held.lost.aborted).toBe(true);
});

it('a seat for a year is not renewed all the time, although no timer is that long', async () => {
  const renew = vi.fn(async () => true);
  const held = holdSeats({ seatMs: 366 * 86_400_000, renew, release: async () => {} });
  await vi.advanceTimersByTimeAsync(2 ** 31 - 2);
  expect(renew).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  expect(renew).toHaveBeenCalledOnce();
  await held?.end();
});
