// How a rule was placed before, kept by a trigger: whoever changes it, and however, what still counts is remembered.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { isCentral, type PlacedBefore, RULE_DEFAULTS, type Rule } from '../../src/core/rule.ts';
import { startDatabase, type TestDatabase } from './database.ts';

let db: TestDatabase;
let client: pg.Client;
beforeAll(async () => {
  db = await startDatabase();
  client = new pg.Client({ connectionString: db.url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await db[Symbol.asyncDispose]();
});
beforeEach(() => run('truncate rules, history'));

const run = async (statement: string, values: unknown[] = []) => (await client.query(statement, values)).rows;
const ID = '00000000-0000-4000-8000-000000000001';
const insert = (id = ID, algorithm = 'fixed-window') =>
  run(
    `insert into rules (id, resource, scope, algorithm, "limit", window_seconds)
      values ($1, '/x', 'ip', $2, 100, 60)`,
    [id, algorithm],
  );
const change = (set: string) => run(`update rules set ${set}`);
const share = (shares: object | null) => run('update rules set shares = $1', [shares]);
const placed = async (): Promise<PlacedBefore[]> =>
  (await run('select placed_before from rules'))[0].placed_before;
/** Without the moments. */
const places = async () => (await placed()).map(({ shares, central }) => ({ shares, central }));
const DEFAULT = { shares: null, central: false };
const CENTRAL = { shares: null, central: true };
const rollBackLast = () => run('select weir_rollback((select max(change_id) from history), false)');
/** As if all that was replaced had been so long ago. */
const age = async (ms: number) => {
  const entries = (await placed()).map((entry) => ({ ...entry, replacedAtMs: entry.replacedAtMs - ms }));
  await run('alter table rules disable trigger keep_placement');
  await run('update rules set placed_before = $1', [JSON.stringify(entries)]);
  await run('alter table rules enable trigger keep_placement');
};

describe('a change of its placement', () => {
  it('is remembered, oldest first, with the moment that it was replaced', async () => {
    await insert();
    expect(await placed()).toEqual([]);
    const fromMs = Date.now();
    await share({ eu: 1 });
    const betweenMs = Date.now();
    await share({ eu: 2, us: 1 });
    const toMs = Date.now();
    const [first, second] = await placed();
    expect(await places()).toEqual([DEFAULT, { shares: { eu: 1 }, central: false }]);
    expect([first?.replacedAtMs, second?.replacedAtMs].every(Number.isSafeInteger)).toBe(true);
    expect(first?.replacedAtMs).toBeGreaterThanOrEqual(fromMs);
    expect(first?.replacedAtMs).toBeLessThanOrEqual(betweenMs);
    expect(second?.replacedAtMs).toBeGreaterThanOrEqual(betweenMs);
    expect(second?.replacedAtMs).toBeLessThanOrEqual(toMs);
  });

  it('is seen wherever it comes from', async () => {
    await insert(ID, 'leaky-bucket');
    for (const [set, before] of [
      ['central = true', DEFAULT],
      ['central = false', CENTRAL],
      ['count_denied = true', DEFAULT],
      ['spill = false', CENTRAL],
      ['spill = true', DEFAULT],
      ['count_denied = false', CENTRAL],
      ['block_seconds = 5', DEFAULT],
      ['block_seconds = null', CENTRAL],
      [`action = 'throttle'`, DEFAULT],
      [`action = 'log'`, CENTRAL],
      [`algorithm = 'concurrency'`, DEFAULT],
      [`algorithm = 'gcra'`, CENTRAL],
    ] as const) {
      await change(set);
      expect((await places()).at(-1), set).toEqual(before);
    }
  });

  it('is none if it is counted in one place before and after, for whatever reason', async () => {
    await insert();
    await change('central = true');
    const before = await placed();
    await change('central = false, count_denied = true');
    await change('count_denied = false, block_seconds = 5');
    expect(await placed()).toEqual(before);
  });

  it.each([
    '"limit" = 5',
    'window_seconds = 5',
    `algorithm = 'gcra', burst = 7`,
    'spill = false',
    'enabled = false',
    `name = 'other'`,
    'shares = null, central = false',
  ])('is none if it says %s', async (set) => {
    await insert();
    await change(set);
    expect(await placed()).toEqual([]);
  });

  it('is none if shares are the same in another order or spelling', async () => {
    await insert();
    await share({ eu: 1, us: 2 });
    const [{ revision }] = await run('select revision from rules');
    await run(`update rules set shares = '{"us": 2.0, "eu": 1}'`);
    expect(await run('select revision from rules')).toEqual([{ revision }]);
    expect(await places()).toEqual([DEFAULT]);
  });

  it('makes a new revision, and one entry in the history', async () => {
    await insert();
    const [before] = await run('select revision from rules');
    await share({ eu: 1 });
    expect(await run('select revision from rules')).not.toEqual([before]);
    expect(await run('select count(*)::int as count from history')).toEqual([{ count: 2 }]);
  });
});

const RULE: Rule = {
  ...{ ...RULE_DEFAULTS, id: ID, name: '', resource: '/x', scope: 'ip', algorithm: 'gcra' },
  ...{ windowSeconds: 1, ordinal: 1 },
};

it('agrees with the limiter on what is counted centrally', async () => {
  const flags = [true, false];
  for (const central of flags)
    for (const spill of flags)
      for (const countDenied of flags)
        for (const blockSeconds of [null, 5])
          for (const action of ['reject', 'throttle', 'log'] as const)
            for (const [algorithm, costFromOrigin] of [
              ['leaky-bucket', false],
              ['leaky-bucket', true],
              ['concurrency', false],
            ] as const) {
              const said = {
                central,
                spill,
                count_denied: countDenied,
                block_seconds: blockSeconds,
                action,
                algorithm,
                cost_from_origin: costFromOrigin,
              };
              const [row] = await run(
                'select weir_is_central(jsonb_populate_record(null::rules, $1)) as is_central',
                [JSON.stringify(said)],
              );
              const rule = {
                ...RULE,
                central,
                spill,
                countDenied,
                blockSeconds,
                action,
                algorithm,
                costFromOrigin,
              };
              expect(row.is_central, JSON.stringify(said)).toBe(isCentral(rule));
            }
});

describe('what was before', () => {
  it.each([
    ['two windows', '', 2 * 60_000],
    ['the time that a bucket takes', `, algorithm = 'gcra', burst = 250`, (2 + 4 * 2.5) * 60_000],
    [
      'that of the smallest limit there can be',
      `, algorithm = 'gcra', burst = 3, limit_name = 'x'`,
      (2 + 12) * 60_000,
    ],
  ])('goes with the next change after %s and three minutes', async (_, more, holdMs) => {
    await insert();
    await change(`central = true${more}`);
    await age(holdMs + 180_000 - 10_000);
    await change('central = false');
    expect(await places()).toEqual([DEFAULT, CENTRAL]);
    await age(10_001);
    await share({ eu: 1 });
    // The first is over, the second, as old as these milliseconds, is not.
    expect(await places()).toEqual([CENTRAL, DEFAULT]);
  });

  it('stays as it is while the placement does', async () => {
    await insert();
    await share({ eu: 1 });
    await age(86_400_000);
    const before = await placed();
    await change('"limit" = 7');
    expect(await placed()).toEqual(before);
  });

  it('is kept as long as the longer of the two windows says, if that changes too', async () => {
    await insert();
    await change('central = true');
    await age(10 * 60_000);
    await change('central = false, window_seconds = 3600');
    expect(await places()).toEqual([DEFAULT, CENTRAL]);
    await age(30 * 60_000);
    await change('central = true, window_seconds = 1');
    expect(await places()).toEqual([CENTRAL, DEFAULT]);
  });

  it('is at most ten, the latest', async () => {
    await insert();
    for (let eu = 1; eu <= 14; eu++) await share({ eu });
    expect(await places()).toEqual(
      Array.from({ length: 10 }, (_, i) => ({ shares: { eu: i + 4 }, central: false })),
    );
  });

  it('is not pushed out by two that take turns', async () => {
    await insert();
    for (let turn = 0; turn < 12; turn++) await share({ eu: 1 + (turn % 2) });
    expect(await places()).toEqual([
      DEFAULT,
      { shares: { eu: 2 }, central: false },
      { shares: { eu: 1 }, central: false },
    ]);
    const atMs = (await placed()).map(({ replacedAtMs }) => replacedAtMs);
    expect(atMs).toEqual(atMs.toSorted((a, b) => a - b));
  });

  it('cannot be changed by hand', async () => {
    await insert();
    await share({ eu: 1 });
    const before = await placed();
    await run(`update rules set placed_before = '[]'`);
    expect(await placed()).toEqual(before);
    await run(`update rules set placed_before = '[]', "limit" = 7`);
    expect(await placed()).toEqual(before);
  });
});

describe('a rollback', () => {
  it('is a change of the placement too, and does not restore what was before', async () => {
    await insert();
    await share({ eu: 1 });
    await rollBackLast();
    expect(await run('select shares from rules')).toEqual([{ shares: null }]);
    expect(await places()).toEqual([DEFAULT, { shares: { eu: 1 }, central: false }]);
    await rollBackLast();
    expect(await run('select shares from rules')).toEqual([{ shares: { eu: 1 } }]);
    expect(await places()).toEqual([{ shares: { eu: 1 }, central: false }, DEFAULT]);
  });

  it('of another change keeps what was before', async () => {
    await insert();
    await share({ eu: 1 });
    await change('"limit" = 7');
    const before = await placed();
    await rollBackLast();
    expect(await run('select "limit" from rules')).toEqual([{ limit: '100' }]);
    expect(await placed()).toEqual(before);
  });

  it('of a deletion brings it back with what was before', async () => {
    await insert();
    await share({ eu: 1 });
    const before = await placed();
    await run('delete from rules');
    await rollBackLast();
    expect(await placed()).toEqual(before);
  });

  it('of a change from before the column was there does not fail', async () => {
    await insert();
    await share({ eu: 1 });
    await run(`update history set before = before - 'placed_before' - 'central'`);
    await rollBackLast();
    expect(await places()).toEqual([DEFAULT, { shares: { eu: 1 }, central: false }]);
    await run('delete from rules');
    await run(`update history set before = before - 'placed_before' - 'central'`);
    await rollBackLast();
    expect(await places()).toEqual([]);
  });
});

describe('a rule that is made again under its id', () => {
  it('was placed as it was when it was deleted', async () => {
    await insert();
    await share({ eu: 1 });
    await run('delete from rules');
    await insert();
    expect(await places()).toEqual([DEFAULT, { shares: { eu: 1 }, central: false }]);
    await run('delete from rules');
    await insert();
    expect(await places()).toEqual([DEFAULT, { shares: { eu: 1 }, central: false }]);
  });

  it('is not taken for another one', async () => {
    await insert();
    await share({ eu: 1 });
    await run('delete from rules');
    await insert('00000000-0000-4000-8000-000000000002');
    expect(await placed()).toEqual([]);
  });
});
