import { afterEach, expect, it } from 'vitest';
import { installVirtualTime, type VirtualTime } from '../../local/simulator/virtual-time.ts';

let installed: VirtualTime | undefined;
afterEach(() => installed?.[Symbol.dispose]());
const install = () => {
  installed = installVirtualTime(1_000, () => 0.5);
  return installed;
};

it('events happen at their times, and events of the same time in the order of their creation', async () => {
  const time = install();
  const seen: string[] = [];
  for (const [name, ms] of [
    ['c', 20],
    ['a', 10],
    ['d', 20],
    ['b', 10],
  ] as const)
    setTimeout(() => seen.push(`${name} ${time.now()}`), ms);
  await time.runUntil(5_000);
  expect(seen).toEqual(['a 1010', 'b 1010', 'c 1020', 'd 1020']);
  expect(time.now()).toBe(5_000);
});

it('all work that an event starts is done before the next event happens', async () => {
  const time = install();
  const seen: number[] = [];
  setTimeout(async () => {
    for (let i = 0; i < 100; i += 1) await undefined;
    seen.push(1);
  }, 10);
  setTimeout(() => seen.push(2), 10);
  await time.runUntil(2_000);
  expect(seen).toEqual([1, 2]);
});

it('a timer that was cleared never rings, and a signal aborts in time', async () => {
  const time = install();
  const seen: string[] = [];
  clearTimeout(setTimeout(() => seen.push('cleared'), 10));
  const signal = AbortSignal.timeout(50);
  signal.addEventListener('abort', () => seen.push(`aborted at ${time.now()}`));
  await time.runUntil(1_049);
  expect(signal.aborted).toBe(false);
  await time.runUntil(2_000);
  expect(seen).toEqual(['aborted at 1050']);
  expect(signal.aborted).toBe(true);
});

it('an error in an event is not lost', async () => {
  const time = install();
  setTimeout(() => {
    throw new Error('broken');
  }, 10);
  await expect(time.runUntil(2_000)).rejects.toThrow('broken');
});

it('the process gets its own timers back afterwards', () => {
  const before = [globalThis.setTimeout, globalThis.clearTimeout, AbortSignal.timeout, Math.random];
  install()[Symbol.dispose]();
  expect([globalThis.setTimeout, globalThis.clearTimeout, AbortSignal.timeout, Math.random]).toEqual(before);
});
