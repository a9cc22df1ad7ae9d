// How many callers wait for regions that do not answer: the few that open the breakers, and none after them.

import { describe, expect, it, vi } from 'vitest';
import type { MakePlan } from '../../src/limiter/limiter.ts';
import { createRegion, createRegions, DEADLINE_MS, type FakeRegion, hangingRun } from './fake-regions.ts';
import { createCheck, openIsolate, useFakeTime } from './limiter-harness.ts';

useFakeTime();
/** Two requests a second, which no rule denies. */
const EVERY_MS = 500;
const plan: MakePlan = async () => ({
  kind: 'checks',
  checks: [createCheck({ limit: 1_000_000 })],
});

/** Sends this many requests one after the other. Returns how long each took. */
async function load(isolate: ReturnType<typeof openIsolate>, requests: number) {
  const sent = [];
  for (let i = 0; i < requests; i += 1) {
    const startedAtMs = Date.now();
    sent.push(await isolate.decide({ plan }));
    await vi.advanceTimersByTimeAsync(startedAtMs + EVERY_MS - Date.now());
  }
  return { sent, late: sent.filter(({ tookMs }) => tookMs > 0) };
}

const frozen = (...names: string[]) =>
  names.map((name) => createRegion(name, { run: hangingRun })) as [FakeRegion, ...FakeRegion[]];

describe('at two requests a second', () => {
  it.each([
    ['the only region', ['us'], 5],
    // Each request has time for two regions.
    ['both of two regions', ['us', 'eu'], 5],
    ['all of three regions', ['us', 'eu', 'ap'], 10],
    ['all of four regions', ['us', 'eu', 'ap', 'sa'], 15],
  ])('with %s frozen for two minutes, only the first requests wait', async (_, names, waiting) => {
    const { sent, late } = await load(openIsolate(frozen(...names)), 240);
    expect(late).toEqual(sent.slice(0, waiting));
    expect(Math.max(...late.map(({ tookMs }) => tookMs))).toBe(DEADLINE_MS);
    for (const { decision } of sent)
      expect(decision).toMatchObject({ kind: 'degraded', allowed: true, fallback: 'open' });
  });

  it('with three frozen regions that have answered before, only the first five requests wait', async () => {
    const regions = frozen('us', 'eu', 'ap');
    for (const { distance } of regions) distance.note(20);
    const { sent, late } = await load(openIsolate(regions), 240);
    expect(late).toEqual(sent.slice(0, 5));
    // A far region gets twice the time that it has taken.
    expect(late.map(({ tookMs }) => tookMs)).toEqual(Array(5).fill(DEADLINE_MS + 2 * 20));
  });

  it('with only the nearest region frozen, the first five requests wait for half of the deadline', async () => {
    const { regions } = createRegions({ run: hangingRun }, {});
    const { sent, late } = await load(openIsolate(regions), 240);
    expect(late).toEqual(sent.slice(0, 5));
    expect(late.map(({ tookMs }) => tookMs)).toEqual(Array(5).fill(DEADLINE_MS / 2));
    for (const { decision } of sent) expect(decision).toMatchObject({ kind: 'counted', allowed: true });
  });

  it('with only the farther region frozen, no request waits', async () => {
    const { regions } = createRegions({}, { run: hangingRun });
    expect((await load(openIsolate(regions), 240)).late).toEqual([]);
  });
});
