// PGlite's TCP port: many clients on its one session, each as if it were alone.
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest';
import { LOOPBACK } from '../../local/ports.ts';
import { cstring, frame, int32, SYNC } from '../../local/postgres/pg-messages.ts';
import { type LocalPostgres, startPostgres } from '../../local/postgres.ts';
import { createSharedParts } from '../shared/parts.ts';

const IDLE_IN_TRANSACTION_MS = 400;
const open: { end(): unknown }[] = [];
let scratch: string;
let postgres: LocalPostgres;

beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'weir-pglite-tcp-'));
  const dataDir = join(scratch, 'data');
  await cp(await createSharedParts(inject('sharedParts')).pgliteFolder(), dataDir, { recursive: true });
  postgres = await startPostgres({ port: 0, dataDir, idleInTransactionMs: IDLE_IN_TRANSACTION_MS });
});
afterEach(async () => {
  for (const client of open.splice(0)) await client.end();
});
afterAll(async () => {
  await postgres?.stop();
  await rm(scratch, { recursive: true });
});

async function connectClient(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: postgres.url });
  client.on('error', () => {});
  await client.connect();
  open.push(client);
  return client;
}

function kill(client: pg.Client): void {
  (client as unknown as { connection: { stream: Socket } }).connection.stream.destroy();
}

async function countOf(client: pg.Client, table: string): Promise<number> {
  const { rows } = await client.query(`select count(*)::int as count from ${table}`);
  return rows[0].count;
}

describe('with several clients at once, the port', () => {
  it('gives every client its own answers, even when a batch arrives in many packets', async () => {
    const clients = await Promise.all(Array.from({ length: 6 }, () => connectClient()));
    const padding = 'x'.repeat(400_000);
    await Promise.all(
      clients.map(async (client, id) => {
        for (let round = 0; round < 25; round += 1) {
          const pad = id === 0 ? padding : '';
          const text = `select $1::int as id, ${round} as round, $2::text as pad, 'client ${id}' as who`;
          const { rows } = await client.query(text, [id, pad]);
          expect(rows).toEqual([{ id, round, pad, who: `client ${id}` }]);
        }
      }),
    );
  });

  it('gives every client its own prepared statements under the same name', async () => {
    const [first, second] = [await connectClient(), await connectClient()];
    for (let round = 0; round < 3; round += 1) {
      const [one, two] = await Promise.all([
        first.query({ name: 'same', text: 'select $1::int + 1 as n', values: [round] }),
        second.query({ name: 'same', text: 'select $1::text as t', values: ['b'] }),
      ]);
      expect([one.rows, two.rows]).toEqual([[{ n: round + 1 }], [{ t: 'b' }]]);
    }
  });

  it('forgets the prepared statements of a client that left', async () => {
    const first = await connectClient();
    await first.query({ name: 'left-behind', text: 'select 1' });
    await first.end();
    const second = await connectClient();
    const { rows } = await second.query('select name from pg_prepared_statements where not from_sql');
    expect(rows).toEqual([]);
  });

  it('runs the unnamed statement a client prepared, after another client prepared its own', async () => {
    const [first, second] = [await RawClient.open(postgres.port), await RawClient.open(postgres.port)];
    await first.ask(parse("select 'first'"), SYNC);
    await second.ask(parse("select 'second'"), SYNC);
    expect((await first.ask(BIND, EXECUTE, SYNC)).toString('latin1')).toContain('first');
    expect((await second.ask(BIND, EXECUTE, SYNC)).toString('latin1')).toContain('second');
  });

  it('runs the statement that a client bound, after another client ran a whole query', async () => {
    const [first, second] = [await RawClient.open(postgres.port), await RawClient.open(postgres.port)];
    first.send(parse("select 'first'"), BIND);
    const other = await second.ask(parse("select 'second'"), BIND, EXECUTE, SYNC);
    expect(other.toString('latin1')).toContain('second');
    expect((await first.ask(EXECUTE, SYNC)).toString('latin1')).toContain('first');
  });

  it('reports an error to its own client and serves the next query of both', async () => {
    const [first, second] = [await connectClient(), await connectClient()];
    const [failed, fine] = await Promise.allSettled([
      first.query('select $1::int / 0', [1]),
      second.query('select 1 as ok'),
    ]);
    expect(failed).toMatchObject({ status: 'rejected', reason: { code: '22012' } });
    expect(fine).toMatchObject({ status: 'fulfilled', value: { rows: [{ ok: 1 }] } });
    expect((await first.query('select 2 as ok')).rows).toEqual([{ ok: 2 }]);
  });

  it('refuses COPY FROM STDIN and goes on', async () => {
    const client = await connectClient();
    await client.query('create table if not exists copied (a int)');
    await expect(client.query('copy copied from stdin')).rejects.toMatchObject({ code: '0A000' });
    expect(await countOf(client, 'copied')).toBe(0);
  });

  it('undoes the settings of a client when it leaves', async () => {
    const first = await connectClient();
    await first.query("set search_path = ''");
    await first.end();
    const second = await connectClient();
    expect((await second.query('show search_path')).rows).toEqual([{ search_path: 'public' }]);
  });
});

describe('for transactions, the port', () => {
  beforeAll(async () => {
    const client = await connectClient();
    await client.query('create table ledger (entry text)');
  });
  afterEach(async () => {
    const client = new pg.Client({ connectionString: postgres.url });
    await client.connect();
    await client.query('truncate ledger');
    await client.end();
  });

  it.each([
    ['rollback', 0],
    ['commit', 2],
  ])(
    'keeps other clients out of an open transaction, and shows them only its result: %s',
    async (end, count) => {
      const [writer, reader] = [await connectClient(), await connectClient()];
      await writer.query('begin');
      await writer.query("insert into ledger values ('a')");
      const seen = countOf(reader, 'ledger');
      await writer.query("insert into ledger values ('b')");
      await writer.query(end);
      expect(await seen).toBe(count);
    },
  );

  it('keeps concurrent transactions atomic', async () => {
    const clients = await Promise.all(Array.from({ length: 4 }, () => connectClient()));
    await Promise.all(
      clients.map(async (client, id) => {
        await client.query('begin');
        const before = await countOf(client, 'ledger');
        await client.query('insert into ledger values ($1)', [`${id}`]);
        expect(await countOf(client, 'ledger')).toBe(before + 1);
        await client.query(id % 2 === 0 ? 'commit' : 'rollback');
      }),
    );
    expect(await countOf(await connectClient(), 'ledger')).toBe(2);
  });

  it('rolls back and lets others in when a client dies in the middle of a transaction', async () => {
    const [dying, other] = [await connectClient(), await connectClient()];
    await dying.query('begin');
    await dying.query("insert into ledger values ('lost')");
    const seen = countOf(other, 'ledger');
    kill(dying);
    expect(await seen).toBe(0);
  });

  it('serves others when a client dies after a failed statement of its transaction', async () => {
    const [dying, other] = [await connectClient(), await connectClient()];
    await dying.query('begin');
    await dying.query('select $1::int / 0', [1]).catch(() => {});
    const seen = other.query('select 1 as ok');
    kill(dying);
    expect((await seen).rows).toEqual([{ ok: 1 }]);
  });

  it('does not commit statements that were flushed but never synced', async () => {
    const dying = await RawClient.open(postgres.port);
    await dying.ask(parse("insert into ledger values ('lost')"), BIND, EXECUTE, frame('H'));
    dying.end();
    expect(await countOf(await connectClient(), 'ledger')).toBe(0);
  });

  it('cuts off a client that sits on an open transaction while others wait', async () => {
    const [idle, other] = [await connectClient(), await connectClient()];
    await idle.query('begin');
    await idle.query("insert into ledger values ('lost')");
    expect(await countOf(other, 'ledger')).toBe(0);
    await expect(idle.query('commit')).rejects.toThrow();
  });
});

const NO_VALUES = Buffer.alloc(6);
const BIND = frame('B', cstring(''), cstring(''), NO_VALUES);
const EXECUTE = frame('E', cstring(''), int32(0));

function parse(sql: string): Buffer {
  return frame('P', cstring(''), cstring(sql), Buffer.alloc(2));
}

/** Sends raw protocol messages, for what no well-behaved driver does. */
class RawClient {
  readonly #socket: Socket;

  constructor(socket: Socket) {
    this.#socket = socket;
    open.push(this);
  }

  static async open(port: number): Promise<RawClient> {
    const client = new RawClient(connect(port, LOOPBACK));
    const hello = Buffer.concat([int32(196608), cstring('user'), cstring('x'), cstring('')]);
    await client.ask(Buffer.concat([int32(hello.length + 4), hello]));
    return client;
  }

  ask(...messages: Buffer[]): Promise<Buffer> {
    const reply = new Promise<Buffer>((resolve) => this.#socket.once('data', resolve));
    this.send(...messages);
    return reply;
  }

  send(...messages: Buffer[]): void {
    this.#socket.write(Buffer.concat(messages));
  }

  end(): void {
    this.#socket.destroy();
  }
}
