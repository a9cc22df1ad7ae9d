// Runs the statements of a request on Postgres: a single one, or a batch as one transaction.
import pg from 'pg';
import { ISOLATION_LEVELS, type SqlRequest, type Statement, type TransactionOptions } from './request.ts';
import { toJsonValue } from './values.ts';

export interface StatementResult {
  rowAsArray: boolean;
  fields: pg.FieldDef[];
  rows: unknown[];
  command: string;
  rowCount: number | null;
}

// The types lack `queryMode`. Without it, a query without parameters could hold many statements.
interface ExtendedQuery extends pg.QueryArrayConfig {
  queryMode: 'extended';
}

const CONNECT_TIMEOUT_MS = 10_000;
const AS_TEXT = { getTypeParser: () => (text: string) => text };

export function createSqlPool(databaseUrl: string, connections: number): pg.Pool {
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    max: connections,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  // If an idle connection breaks, the next request opens another.
  pool.on('error', () => {});
  return pool;
}

/** `signal` aborts when the caller has left. Statements not committed by then do not run, or are rolled back. */
export async function execute(
  pool: pg.Pool,
  request: SqlRequest,
  signal: AbortSignal,
): Promise<StatementResult[]> {
  const client = await pool.connect();
  // If Postgres goes down, the query fails. The pool does not listen to errors of a client in use.
  const onLost = () => {};
  client.on('error', onLost);
  // While a query runs, this drops the connection, so that a waiting query cannot outlive its caller.
  const hangUp = () => void client.end();
  signal.addEventListener('abort', hangUp);
  try {
    signal.throwIfAborted();
    return request.isBatch ? await runBatch(client, request, signal) : await runAll(client, request, signal);
  } finally {
    signal.removeEventListener('abort', hangUp);
    client.off('error', onLost);
    // The next request must not find an open transaction, from a lone BEGIN or a batch that failed half-way.
    client.release(client.getTransactionStatus() !== 'I');
  }
}

async function runBatch(client: pg.PoolClient, request: SqlRequest, signal: AbortSignal) {
  await client.query(beginStatement(request.transaction));
  try {
    const results = await runAll(client, request, signal);
    await client.query('COMMIT');
    return results;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  }
}

async function runAll(client: pg.PoolClient, request: SqlRequest, signal: AbortSignal) {
  const results: StatementResult[] = [];
  for (const statement of request.statements) {
    signal.throwIfAborted();
    results.push(await runOne(client, statement, request.rawText));
  }
  return results;
}

async function runOne(
  client: pg.PoolClient,
  statement: Statement,
  rawText: boolean,
): Promise<StatementResult> {
  const query: ExtendedQuery = {
    text: statement.text,
    values: statement.parameters,
    rowMode: 'array',
    types: AS_TEXT,
    queryMode: 'extended',
  };
  const { fields, rows, command, rowCount } = await client.query<(string | null)[]>(query);
  return {
    rowAsArray: statement.arrayMode,
    fields: fields.map(plainField),
    rows: shapeRows(rows, fields, { rawText, asArrays: statement.arrayMode }),
    command: command ?? '',
    rowCount,
  };
}

function shapeRows(
  rows: (string | null)[][],
  fields: pg.FieldDef[],
  options: { rawText: boolean; asArrays: boolean },
): unknown[] {
  const cells = options.rawText ? rows : rows.map((row) => row.map((cell, at) => toJson(cell, fields[at])));
  if (options.asArrays) return cells;
  return cells.map((row) => Object.fromEntries(row.map((cell, at) => [fields[at]?.name ?? '', cell])));
}

function toJson(cell: string | null, field: pg.FieldDef | undefined): unknown {
  return cell === null ? null : toJsonValue(cell, field?.dataTypeID ?? 0);
}

function plainField(field: pg.FieldDef): pg.FieldDef {
  const { name, dataTypeID, tableID, columnID, dataTypeSize, dataTypeModifier } = field;
  return { name, dataTypeID, tableID, columnID, dataTypeSize, dataTypeModifier, format: 'text' };
}

function beginStatement({ isolationLevel, readOnly, deferrable }: TransactionOptions): string {
  const modes = [
    isolationLevel === null ? '' : `ISOLATION LEVEL ${ISOLATION_LEVELS[isolationLevel]}`,
    readOnly ? 'READ ONLY' : '',
    deferrable ? 'DEFERRABLE' : '',
  ];
  return `START TRANSACTION ${modes.filter((mode) => mode !== '').join(', ')}`;
}
