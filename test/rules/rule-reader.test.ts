// Reading rules to publish: a reader that remembers must give the same result as one that does not.
import { neonConfig } from '@neondatabase/serverless';
import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { formatFlatRule } from '../../src/core/matching/flat-rule.ts';
import type { Rule } from '../../src/core/matching/rule.ts';
import { readContent } from '../../src/rules/publishing/content.ts';
import { createRuleReader, type RuleReader } from '../../src/rules/publishing/rule-reader.ts';
import { rounds } from '../rounds.ts';
import { DELETE_ALL, startDatabase, type TestDatabase } from './database.ts';

let db: TestDatabase;
let client: pg.Client;
/** What goes to Postgres, and what happens before it gets there. */
const wire = { bodies: [] as string[], before: async (_count: number): Promise<unknown> => undefined };

beforeAll(async () => {
  db = await startDatabase();
  client = new pg.Client({ connectionString: db.url });
  await client.connect();
  neonConfig.fetchFunction = async (url: string, init: { body: string }) => {
    wire.bodies.push(init.body);
    await wire.before(wire.bodies.length);
    return fetch(url, init);
  };
});
afterAll(async () => {
  neonConfig.fetchFunction = undefined;
  await client.end();
  await db[Symbol.asyncDispose]();
});
beforeEach(async () => {
  wire.before = async () => undefined;
  await clear();
});

const run = (statement: string, values: unknown[] = []) => client.query(statement, values);
const clear = () => run(DELETE_ALL);
const add = (name: string, resource = `/${name}`) =>
  run(
    `insert into rules (name, resource, scope, algorithm, "limit", window_seconds)
      values ($1, $2, 'ip', 'fixed-window', 5, 60)`,
    [name, resource],
  );

async function readBy(reader: RuleReader) {
  const { sequence: _, mark: __, ...read } = await reader.read(SHARES);
  return read;
}
const SHARES = { eu: 2, us: 1 };
const createReader = () => createRuleReader(db.database, { now: () => Date.now() });
const namesBy = async (reader: RuleReader) =>
  (await reader.read(SHARES)).content.rules.map(({ name }) => name).sort();

type Content = Awaited<ReturnType<typeof readContent>>['content'];

/** Disabled rules are not published, and neither is their placement. */
function onlyEnabled({ rules, split, ...content }: Content) {
  const enabled = rules.filter((rule) => rule.enabled !== false);
  const { moved = {}, ...others } = split ?? { shares: {}, before: [] };
  const kept = Object.entries(moved).filter(([id]) => enabled.some((rule) => rule.id === id));
  const placed = { ...others, ...(kept.length > 0 && { moved: Object.fromEntries(kept) }) };
  return { ...content, rules: enabled, ...(split && { split: placed }) };
}

describe('a reader that is kept across changes', () => {
  /** The id of one of the rules, by its place. */
  const nth = (place: number) => `(select id from rules order by id offset ${place} limit 1)`;
  const place = fc.nat({ max: 5 });
  const statement = fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom('/a', '/a/:id', '/*', '/_weir/x', '/a/*/b').map(insert) },
    {
      weight: 6,
      arbitrary: fc
        .tuple(
          fc.constantFrom(
            ...[
              '"limit" = "limit" % 9 + 1',
              'priority = 200 - priority',
              `name = name || 'x'`,
              'cost = cost',
            ],
            ...[
              `resource = '/b'`,
              `resource = '/b/{'`,
              `limit_name = 'calls'`,
              'limit_name = null',
              'spill = not spill',
              'central = not central',
              'count_denied = not count_denied',
            ],
            ...['enabled = not enabled', 'enabled = false', 'enabled = true', `tiers = '{pro}'`],
          ),
          place,
        )
        .map(([change, at]) => `update rules set ${change} where id = ${nth(at)}`),
    },
    { weight: 2, arbitrary: place.map((at) => `delete from rules where id = ${nth(at)}`) },
    fc.constantFrom(
      'update rules set enabled = not enabled',
      `insert into tiers (name, limits) values ('pro', '{"calls": 5}') on conflict do nothing`,
      // More than sliding-window-log can count.
      `update tiers set limits = '{"calls": 1000000}'`,
      `update tiers set limits = '{"calls": [5]}'`,
      'delete from tiers',
      `insert into list_entries (list, kind, value) values ('deny', 'user', gen_random_uuid())`,
      'delete from list_entries',
      // A deleted row comes back as it was, a changed one is as before.
      'select weir_rollback(change_id, true) from (select max(change_id) as change_id from history) last',
    ),
    fc.constant('read'),
  );

  function insert(resource: string): string {
    return `insert into rules (resource, scope, algorithm, "limit", window_seconds)
      values ('${resource}', 'user', 'sliding-window-log', 5, 60)`;
  }

  it('gives the same result as a new reader, and as reading all rows at once', async () => {
    let rejectedSomething = false;
    await fc.assert(
      fc.asyncProperty(fc.array(statement, { minLength: 10, maxLength: 40 }), async (statements) => {
        await clear();
        const reader = createReader();
        for (const one of [...statements, 'read']) {
          if (one !== 'read') {
            // A rollback with nothing to undo is refused, and changes nothing.
            await run(one).catch(({ code }) => expect(code).toBe('WE404'));
            continue;
          }
          const read = await readBy(reader);
          expect(read).toEqual(await readBy(createReader()));
          const { content } = await readContent(db.database, Date.now());
          expect(read.content).toEqual(onlyEnabled(content));
          expect(read.texts).toEqual(read.content.rules.map(formatFlatRule));
          rejectedSomething ||= read.rejected.length > 0;
        }
      }),
      { numRuns: rounds(12) },
    );
    expect(rejectedSomething).toBe(true);
  });

  it('has a higher number each time', async () => {
    const reader = createReader();
    const numbers = [];
    for (const each of [reader, createReader(), reader]) numbers.push((await each.read(SHARES)).sequence);
    const [first = 0] = numbers;
    expect(numbers).toEqual([first, first + 1, first + 2]);
  });
});

describe('a reader', () => {
  const bodiesOf = async (reader: RuleReader) => {
    wire.bodies = [];
    await reader.read(SHARES);
    return wire.bodies;
  };
  const idOf = async (name: string) => (await run('select id from rules where name = $1', [name])).rows[0].id;

  it('sends one query for unchanged rules, and reads no whole rule', async () => {
    for (const name of ['a', 'b', 'c']) await add(name);
    await add('never matches', '/_weir/x');
    const reader = createReader();
    expect(await bodiesOf(reader)).toHaveLength(2);
    const again = await bodiesOf(reader);
    expect(again).toHaveLength(1);
    expect(again[0]).not.toContain('window_seconds');
  });

  it('asks for the changed rules after a change, and for no others', async () => {
    for (const name of ['a', 'b', 'c']) await add(name);
    const reader = createReader();
    await reader.read(SHARES);
    await run(`update rules set "limit" = 7 where name = 'b'`);
    const [, second = ''] = await bodiesOf(reader);
    for (const name of ['a', 'b', 'c']) expect(second.includes(await idOf(name))).toBe(name === 'b');
    expect(await bodiesOf(reader)).toHaveLength(1);
  });

  it('asks for no rule after a deletion, or after a change of tiers, lists or callers', async () => {
    for (const name of ['a', 'b']) await add(name);
    const reader = createReader();
    await reader.read(SHARES);
    for (const statement of [
      `delete from rules where name = 'a'`,
      `insert into tiers (name) values ('pro')`,
      `insert into list_entries (list, kind, value) values ('deny', 'user', 'eve')`,
      `insert into users (id) values ('ann')`,
      'update rules set enabled = false',
    ]) {
      await run(statement);
      expect(await bodiesOf(reader)).toHaveLength(1);
    }
    expect(await namesBy(reader)).toEqual([]);
  });

  it('asks for all rules if too many to name have changed', async () => {
    await run(`insert into rules (name, resource, scope, algorithm, "limit", window_seconds)
      select 'rule ' || n, '/' || n, 'ip', 'gcra', n, 60 from generate_series(1, 501) n`);
    const reader = createReader();
    wire.before = async (count) => count === 2 && add('meanwhile');
    const [, second = ''] = await bodiesOf(reader);
    expect(second.length).toBeLessThan(2_000);
    expect(await readBy(reader)).toEqual(await readBy(createReader()));
    expect(await namesBy(reader)).toContain('meanwhile');
  });
});

describe('a rule that changes between the two queries of a read', () => {
  const changeMeanwhile = async (statement: string, count = 2) => {
    const reader = createReader();
    wire.bodies = [];
    wire.before = async (nth) => nth === count && run(statement);
    const during = await readBy(reader);
    wire.before = async () => undefined;
    const afterwards = await readBy(reader);
    expect(afterwards).toEqual(await readBy(createReader()));
    return { during, afterwards };
  };
  beforeEach(async () => {
    for (const name of ['a', 'b']) await add(name);
  });

  it('is read in its new state', async () => {
    const { during, afterwards } = await changeMeanwhile(`update rules set "limit" = 9 where name = 'a'`);
    expect(during.content.rules.find(({ name }) => name === 'a')?.limits[0]?.limit).toBe(9);
    expect(during).toEqual(afterwards);
  });

  it('and becomes bad is reported', async () => {
    const { during } = await changeMeanwhile(`update rules set resource = '/_weir' where name = 'a'`);
    expect(during.content.rules.map(({ name }) => name)).toEqual(['b']);
    expect(during.rejected).toMatchObject([{ name: 'a' }]);
  });

  it.each([
    ['deleted', `delete from rules where name = 'a'`],
    ['switched off', `update rules set enabled = false where name = 'a'`],
  ])('and is %s is left out', async (_, statement) => {
    const { during, afterwards } = await changeMeanwhile(statement);
    expect(during.content.rules.map(({ name }) => name)).toEqual(['b']);
    // The first query has read which rules are off. The change itself publishes again.
    const { off } = afterwards.content;
    expect({ ...during, content: { ...during.content, off } }).toEqual(afterwards);
  });

  it('and is deleted and created again comes with the next read', async () => {
    const { during, afterwards } = await changeMeanwhile(
      `delete from rules where name = 'a'; insert into rules (name, resource, scope, algorithm, "limit", window_seconds)
        values ('a', '/again', 'ip', 'gcra', 1, 1)`,
    );
    expect(during.content.rules.map(({ name }) => name)).toEqual(['b']);
    expect(afterwards.content.rules.flatMap(({ resources }) => resources).sort()).toEqual(['/again', '/b']);
  });
});

it('a failed read does not change the state of the reader', async () => {
  for (const name of ['a', 'b']) await add(name);
  const reader = createReader();
  const before = await readBy(reader);
  await add('c');
  for (const failing of [1, 2]) {
    wire.bodies = [];
    wire.before = async (nth) => {
      if (nth === failing) throw new Error('down');
    };
    await expect(reader.read(SHARES)).rejects.toThrow();
  }
  wire.before = async () => undefined;
  await run(`delete from rules where name = 'c'`);
  expect(await readBy(reader)).toEqual(before);
});

it('a rule of a replaced database is read again, even if it has the same revision', async () => {
  await add('a');
  const reader = createReader();
  await reader.read(SHARES);
  await run('alter table rules disable trigger revise');
  await run(`update rules set "limit" = 9, updated_at = updated_at + interval '1 second'`);
  await run('alter table rules enable trigger revise');
  expect((await reader.read(SHARES)).content.rules).toMatchObject([{ name: 'a', limits: [{ limit: 9 }] }]);
});

it('two reads at once by one reader give the same result as one', async () => {
  await add('a');
  const reader = createReader();
  await reader.read(SHARES);
  const held = Promise.withResolvers<void>();
  wire.bodies = [];
  wire.before = async (nth) => nth === 1 && held.promise;
  const late = readBy(reader);
  await add('b');
  const early = await readBy(reader);
  await run(`update rules set "limit" = 9 where name = 'b'`);
  held.resolve();
  expect(early.content.rules.map(limitOf)).toEqual([5, 5]);
  expect((await late).content.rules.map(limitOf).sort()).toEqual([5, 9]);
  expect(await readBy(reader)).toEqual(await readBy(createReader()));
});

const limitOf = ({ limits }: Rule) => limits[0]?.limit;
