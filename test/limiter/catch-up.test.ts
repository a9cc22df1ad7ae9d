// A bucket that was moved to another region: its new counter learns the level of the old one.
import { describe, expect, it } from 'vitest';
import type { AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import { useFakeTime } from './limiter-harness.ts';
import { place } from './placed.ts';
import { does, open } from './regional-count-harness.ts';

useFakeTime();

/** Moved from `eu` to `ap`, so both count it. `eu` has counted five requests before. */
async function openMoved(algorithm: AlgorithmId) {
  const before = place({ eu: 10 }, { id: 'moved', at: 'eu', algorithm });
  const after = { ...before, parts: new Map([['ap', { limit: 10, extra: undefined }]]), at: 'ap' };
  const opened = open({ placed: [before, after] });
  for (let i = 0; i < 5; i += 1) await opened.count({ placed: [before] });
  await opened.settle();
  opened.said();
  const left = () => [opened.leftIn(opened.eu, before), opened.leftIn(opened.ap, after)];
  return { ...opened, left };
}

describe.each(['token-bucket', 'leaky-bucket', 'gcra'] as const)('a %s that is moved', (algorithm) => {
  it('has its old level in the new region after the first request', async () => {
    const { count, settle, left } = await openMoved(algorithm);
    await count();
    expect(left()).toEqual([4, 9]);
    await settle();
    expect(left()).toEqual([4, 4]);
  });

  it('is brought to its old level once, however many requests notice the move', async () => {
    const { count, settle, said, left } = await openMoved(algorithm);
    await Promise.all([count(), count(), count()]);
    await settle();
    expect(left()).toEqual([2, 2]);
    said();
    await count();
    await settle();
    expect(said()).toEqual(['eu take moved', 'ap take moved']);
  });

  it('is denied by its old region, and its new level stays as it is', async () => {
    const { count, settle, left } = await openMoved(algorithm);
    for (let i = 0; i < 5; i += 1) await count();
    await settle();
    expect(left()).toEqual([0, 0]);
    expect(await count()).toMatchObject({ results: [{ outcome: { allowed: false } }], failure: undefined });
    await settle();
    expect(left()).toEqual([0, 0]);
  });

  it('is brought to its old level by a later request if the first one fails', async () => {
    const { count, settle, asked, ap, left } = await openMoved(algorithm);
    const { run } = ap.does;
    does(ap, asked, (call, signal) =>
      call.operation === 'settle' ? Promise.reject(new Error('lost')) : run(call, signal),
    );
    await count();
    await settle();
    expect(left()).toEqual([4, 9]);
    ap.does.run = run;
    await count();
    await settle();
    expect(left()).toEqual([3, 3]);
  });
});

it('a window that is moved starts empty: the old window ends before the new one counts alone', async () => {
  const { count, settle, left } = await openMoved('fixed-window');
  await count();
  await settle();
  expect(left()).toEqual([4, 9]);
});
