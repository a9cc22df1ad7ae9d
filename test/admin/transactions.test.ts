// Transactions that meet, on separate connections: a person is in the middle of a change when a request comes.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Admin, startAdmin } from './harness.ts';
import { create, readProblem, type Shown } from './samples.ts';

let admin: Admin;
/** A person who writes SQL by hand. */
let editor: pg.Client;
let onlooker: pg.Client;
beforeAll(async () => {
  admin = await startAdmin();
  [editor, onlooker] = [await connect(), await connect()];
});
afterAll(async () => {
  for (const client of [editor, onlooker]) await client.end();
  await admin[Symbol.asyncDispose]();
});
beforeEach(() => onlooker.query('delete from rules; delete from tiers; delete from history'));

async function connect(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: admin.db.url });
  await client.connect();
  return client;
}

const ruleOf = (name: string, limit = 10) => ({
  name,
  resource: `/${name}`,
  scope: 'ip',
  algorithm: 'fixed-window',
  limit,
  windowSeconds: 60,
});
const limitOf = async (name: string) =>
  (await onlooker.query<{ limit: number }>('select "limit"::int from rules where name = $1', [name])).rows[0]
    ?.limit;

/** How many transactions of this database wait for a lock. */
const waiting = async () => {
  const { rows } = await onlooker.query<{ count: number }>(`
    select count(*)::int from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`);
  return rows[0]?.count;
};

/** Sends a request while the editor's transaction has run this statement, then ends the transaction. */
async function whileEditing(statement: string, request: () => Promise<Response>): Promise<Response> {
  await editor.query('begin');
  await editor.query(statement);
  const answer = request();
  try {
    await expect.poll(waiting).toBe(1);
  } finally {
    await editor.query('commit');
  }
  return answer;
}

describe('an import', () => {
  const basedOn = async () => ((await (await admin.call('/export')).json()) as { basedOn: number }).basedOn;
  const send = (document: object) =>
    admin.call('/import?mode=replace', { method: 'POST', body: { weir: 1, ...document } });

  it('waits for a change that began before it, and does not overwrite that change', async () => {
    await create(admin, 'rules', ruleOf('known'));
    const document = { basedOn: await basedOn(), rules: [ruleOf('known', 77)] };
    const answer = await whileEditing(`update rules set "limit" = 50`, () => send(document));
    expect([answer.status, (await readProblem(answer)).code]).toEqual([409, 'changed-since']);
    expect(await limitOf('known')).toBe(50);
  });

  it('without basedOn waits for an earlier change, and then starts again with its rows', async () => {
    await create(admin, 'rules', ruleOf('known'));
    const insert = `insert into rules (name, resource, scope, algorithm, "limit", window_seconds)
      values ('late', '/late', 'ip', 'fixed-window', 1, 60)`;
    const answer = await whileEditing(insert, () => send({ rules: [ruleOf('known', 77)] }));
    expect(await answer.json()).toMatchObject({ rules: { deleted: ['late'], updated: [{ name: 'known' }] } });
    expect([await limitOf('known'), await limitOf('late')]).toEqual([77, undefined]);
  });

  it('succeeds only once if many imports are based on the same state', async () => {
    for (let round = 0; round < 5; round += 1) {
      const based = await basedOn();
      const limits = [1, 2, 3, 4].map((each) => 10 * (round + 1) + each);
      const answers = await Promise.all(
        limits.map((limit) => send({ basedOn: based, rules: [ruleOf('one', limit)] })),
      );
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409]);
      expect(await limitOf('one')).toBe(limits[answers.findIndex(({ ok }) => ok)]);
    }
  });
});

describe('a row that another transaction is changing', () => {
  let rule: Shown;
  beforeEach(async () => {
    rule = await create(admin, 'rules', ruleOf('row'));
  });

  it.each([
    ['PATCH', { limit: 77 }],
    ['PUT', ruleOf('row', 77)],
    ['DELETE', undefined],
  ] as const)('is not changed by a %s based on the old revision', async (method, body) => {
    const headers = { 'If-Match': `"${rule.revision}"` };
    const answer = await whileEditing('update rules set "limit" = 50', () =>
      admin.call(`/rules/${rule.id}`, { method, body, headers }),
    );
    expect(answer.status).toBe(412);
    expect(await limitOf('row')).toBe(50);
  });

  it('is not rolled back over that change', async () => {
    await admin.call(`/rules/${rule.id}`, { method: 'PATCH', body: { limit: 20 } });
    const { rows } = await onlooker.query('select change_id from history order by id desc limit 1');
    const answer = await whileEditing('update rules set "limit" = 50', () =>
      admin.call(`/history/${rows[0].change_id}/rollback`, { method: 'POST', body: {} }),
    );
    expect([answer.status, (await readProblem(answer)).code]).toEqual([409, 'changed-since']);
    expect(await limitOf('row')).toBe(50);
  });
});

describe('two transactions that change rows in turns', () => {
  it('can be undone one by one', async () => {
    for (const name of ['a', 'b', 'c']) await create(admin, 'rules', ruleOf(name));
    const other = await connect();
    for (const client of [editor, other]) await client.query('begin');
    await editor.query(`update rules set "limit" = 50 where name = 'a'`);
    await other.query(`update rules set "limit" = 60 where name = 'b'`);
    await editor.query(`update rules set "limit" = 50 where name = 'c'`);
    for (const client of [other, editor]) await client.query('commit');
    await other.end();

    const { rows } = await onlooker.query(`select change_id from history where after ->> 'limit' = '60'`);
    const answer = await admin.call(`/history/${rows[0].change_id}/rollback`, { method: 'POST', body: {} });
    expect(await answer.json()).toMatchObject({ rowCount: 1 });
    expect([await limitOf('a'), await limitOf('b'), await limitOf('c')]).toEqual([50, 10, 50]);
  });
});
