// Several publications at once, with their steps in any order, and a database that was restored: the newest wins.
import { AsyncLocalStorage } from 'node:async_hooks';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { versionOf } from '../../src/core/matching/stored-snapshot.ts';
import { runCron } from '../../src/wiring/cron.ts';
import { rounds } from '../rounds.ts';
import { type Step, usePublishing } from './publish-harness.ts';
import { readRules } from './published.ts';

const { addRule, before, clear, createOptions, kv, publishNow, regions, run, standing } = usePublishing();

/** Every region announces the current rules, and KV has them. */
async function expectNewestInForce() {
  before.step = async () => undefined;
  const { rows } = await run('select count(*)::int as count, max("limit")::int as limit from rules');
  const [eu, us] = await standing();
  const { version, changed } = await publishNow();
  expect(changed).toBe(false);
  expect([eu?.rules, us?.rules]).toEqual([version, version]);
  const snapshot = await readRules(kv(), version);
  expect(snapshot?.ruleCount).toBe(rows[0].count);
  return { limit: rows[0].limit as number, version };
}

const publishing = new AsyncLocalStorage<symbol>();

/** Starts a publication, and holds it when it comes to this step for the nth time. */
function startAndHold(held: Step, nth = 1) {
  const arrived = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const self = Symbol();
  const others = before.step;
  let count = 0;
  before.step = async (step) => {
    if (publishing.getStore() !== self) return others(step);
    if (step !== held || ++count !== nth) return;
    arrived.resolve();
    await released.promise;
  };
  const publication = publishing.run(self, publishNow);
  // The publication may never come to that step.
  return { publication, arrived: Promise.race([arrived.promise, publication]), release: released.resolve };
}

describe('when two publications meet,', () => {
  it.each<Step>(['read eu', 'postgres', 'copy eu', 'put rules', 'write eu', 'write us'])(
    'the older one, held up at "%s" until the newer one is done, does not undo the newer one',
    async (step) => {
      await addRule('a');
      const older = startAndHold(step);
      await older.arrived;
      await run('update rules set "limit" = 77');
      const newer = await publishNow();
      older.release();
      await older.publication;
      const { limit, version } = await expectNewestInForce();
      expect([limit, version]).toEqual([77, newer.version]);
    },
  );

  it('the newer one, held up until the older one is done, comes into force', async () => {
    await addRule('a');
    const older = startAndHold('put rules');
    await older.arrived;
    await run('update rules set "limit" = 77');
    const newer = startAndHold('write us');
    await newer.arrived;
    older.release();
    await older.publication;
    newer.release();
    const { version } = await newer.publication;
    expect((await expectNewestInForce()).version).toBe(version);
  });
});

describe('a change made while a publication is held up, and not published by itself,', () => {
  it.each<[Step, number]>([
    ['read eu', 1],
    ['postgres', 1],
    ['postgres', 2],
    ['postgres', 3],
    ['put rules', 1],
    ['put current', 1],
    ['write us', 1],
  ])('is in force after the next cron run: held up at "%s" (%i)', async (step, nth) => {
    await addRule('a');
    const publication = startAndHold(step, nth);
    await publication.arrived;
    await run('update rules set "limit" = 77');
    publication.release();
    await publication.publication;
    before.step = async () => undefined;
    await runCron({ publishing: createOptions(), databaseCheckMinutes: 1 }, 60_000);
    expect((await expectNewestInForce()).limit).toBe(77);
  });
});

describe('changes that are published at the same time', () => {
  const EDITORS = [0, 1, 2];
  const hold = fc.oneof(
    fc.record({ step: fc.constant<Step>('postgres'), nth: fc.integer({ min: 1, max: 4 }) }),
    fc.record({
      step: fc.constantFrom<Step>(
        'read eu',
        'read us',
        'copy eu',
        'put rules',
        'put callers',
        'put current',
        'write eu',
        'write us',
      ),
      nth: fc.constant(1),
    }),
  );

  it('are all in force at the end, in every order', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.tuple(hold, hold, hold),
        fc.shuffledSubarray(EDITORS, { minLength: EDITORS.length }),
        fc.boolean(),
        async (holds, order, isPutBack) => {
          await clear();
          await addRule('a');
          await publishNow();
          if (isPutBack) await run(`select setval('publications', 1)`);
          const started = [];
          for (const [i, { step, nth }] of holds.entries()) {
            await addRule(`rule ${i}`);
            const one = startAndHold(step, nth);
            await one.arrived;
            started.push(one);
          }
          for (const editor of order) {
            started[editor]?.release();
            await started[editor]?.publication;
          }
          await expectNewestInForce();
        },
      ),
      { numRuns: rounds(5) },
    );
  });
});

describe('a database that was restored to an earlier day', () => {
  const LONG_AGO = { sequence: 900_000, rules: 'a'.repeat(16), callers: 'b'.repeat(16) };

  it('still gets its rules into force: numbers go on above those of every region', async () => {
    await addRule('a');
    const [, us] = regions();
    await us?.put(LONG_AGO);
    await run(`select setval('publications', 7)`);
    const { version } = await publishNow();
    expect(await standing()).toEqual(
      Array(2).fill({
        sequence: 900_001,
        rules: version,
        callers: await versionOf('{"epoch":"0","revisions":{},"onlyWeirKeys":true}'),
      }),
    );
    await run('update rules set "limit" = 77');
    await publishNow();
    expect((await expectNewestInForce()).limit).toBe(77);
  });

  it('never reuses a number that was given out in the meantime', async () => {
    await addRule('a');
    for (const region of regions()) await region.put(LONG_AGO);
    await run(`select setval('publications', 7)`);
    let questions = 0;
    before.step = async (step) => {
      // After the number that is too low, before the sequence is set.
      if (step === 'postgres' && ++questions === 3) await run(`select setval('publications', 950000)`);
    };
    await publishNow();
    expect((await standing())[0]?.sequence).toBe(950_001);
  });
});
