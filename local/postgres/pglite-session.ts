// One TCP client of PGlite. It takes its turn for a whole batch (up to Sync) and keeps it until its transaction ends.
// So no client ever runs inside, or sees, the transaction of another.
import { Buffer } from 'node:buffer';
import type { Socket } from 'node:net';
import {
  errorResponse,
  query,
  readCstring,
  readyForQuery,
  SYNC,
  splitMessages,
  type TypedMessage,
  typeOf,
} from './pg-messages.ts';
import { createPreparedStatements, type UnnamedStatement } from './prepared-statements.ts';
import type { Turns } from './turns.ts';

/** What all sessions share: the engine, and the turns on it. */
export interface Engine {
  /** Runs whole messages and passes every chunk of the reply to `onReply`. Only the holder of the turn may call it. */
  run(messages: Buffer, onReply?: (chunk: Buffer) => void): Promise<void>;
  inTransaction(): boolean;
  turns: Turns;
  unnamed: UnnamedStatement;
  idleInTransactionMs: number;
}

const PARSE_COMPLETE = '1';
// S, Q and F (a function call) end a batch. H (Flush) asks for the replies so far: the session runs the messages and
// keeps its turn.
const RUNS = new Set(['S', 'Q', 'F', 'H']);
const SETS_SESSION = /(^|;)\s*(set(?!\s+(local|transaction))|reset)\b|\bset_config\s*\(/i;
const COPY_IN = /(^|;)\s*copy\b[^;]*\bfrom\s+stdin\b/i;

/** Serves a client after its hello. `head` is what the client sent after it. */
export function serveSession(socket: Socket, clientId: number, engine: Engine, head: Buffer): void {
  const statements = createPreparedStatements(clientId, engine.unnamed);
  let bytes = head;
  let pending: TypedMessage[] = [];
  let endTurn: (() => void) | null = null;
  let idleTimer: NodeJS.Timeout | undefined;
  let pumping = false;
  let closed = false;
  let setsSession = false;

  const receive = () => {
    const { messages, rest } = splitMessages(bytes);
    bytes = rest;
    pending.push(...messages);
    void pump();
  };

  async function pump(): Promise<void> {
    if (pumping) return;
    pumping = true;
    try {
      for (let batch = nextBatch(); batch !== null && !closed; batch = nextBatch()) await runBatch(batch);
    } catch (error) {
      // The engine has ended, and the server has already dropped its sockets.
      socket.destroy(error instanceof Error ? error : undefined);
    } finally {
      pumping = false;
      if (closed) await leave();
    }
  }

  function nextBatch(): TypedMessage[] | null {
    if (pending[0] !== undefined && typeOf(pending[0]) === 'X') socket.end();
    const last = pending.findIndex((message) => RUNS.has(typeOf(message)));
    return last === -1 ? null : pending.splice(0, last + 1);
  }

  async function runBatch(batch: TypedMessage[]): Promise<void> {
    clearTimeout(idleTimer);
    endTurn ??= await engine.turns.take();
    if (closed) return;
    const refusal = refuse(batch);
    if (refusal !== null) socket.write(refusal);
    else await runOnEngine(batch);
    const flushed = typeOf(batch.at(-1) as TypedMessage) === 'H';
    if (flushed || engine.inTransaction()) watchIdle();
    else giveTurn();
  }

  async function runOnEngine(batch: TypedMessage[]): Promise<void> {
    setsSession ||= batch.some((message) => SETS_SESSION.test(sqlOf(message)));
    const lost = statements.lost(batch);
    if (lost !== null)
      await engine.run(lost, (chunk) => typeOf(chunk) !== PARSE_COMPLETE && socket.write(chunk));
    socket.cork();
    await engine.run(Buffer.concat(statements.translate(batch)), (chunk) => socket.write(chunk));
    socket.uncork();
  }

  function giveTurn(): void {
    clearTimeout(idleTimer);
    endTurn?.();
    endTurn = null;
  }

  // A client that leaves a transaction open would hold up all others for ever.
  function watchIdle(): void {
    idleTimer = setTimeout(() => {
      if (engine.turns.waiting === 0) return watchIdle();
      socket.end(
        errorResponse('FATAL', '25P03', 'terminating connection due to idle-in-transaction timeout'),
      );
      socket.destroySoon();
    }, engine.idleInTransactionMs).unref();
  }

  async function leave(): Promise<void> {
    clearTimeout(idleTimer);
    const wasInTurn = endTurn !== null;
    const farewell = statements.closeAll();
    if (setsSession) farewell.push(query('RESET ALL'));
    if (!wasInTurn && farewell.length === 0) return;
    endTurn ??= await engine.turns.take();
    // After a failed batch without Sync, Postgres ignores the first ROLLBACK, so a second one follows.
    const abort = wasInTurn ? [query('ROLLBACK'), SYNC, query('ROLLBACK')] : [];
    await engine.run(Buffer.concat([...abort, ...farewell, SYNC])).catch(() => {});
    giveTurn();
  }

  socket.on('data', (chunk: Buffer) => {
    bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk]);
    receive();
  });
  socket.on('close', () => {
    closed = true;
    pending = [];
    if (!pumping) void leave();
  });
  receive();

  function refuse(batch: TypedMessage[]): Buffer | null {
    if (!batch.some((message) => COPY_IN.test(sqlOf(message)))) return null;
    // PGlite reads its input in one go. If it waited for copy data, the whole engine would end.
    const error = errorResponse('ERROR', '0A000', 'COPY FROM STDIN is not supported by the local Postgres');
    return Buffer.concat([error, readyForQuery(engine.inTransaction() ? 'T' : 'I')]);
  }
}

function sqlOf(message: TypedMessage): string {
  const type = typeOf(message);
  if (type === 'Q') return readCstring(message, 5).text;
  if (type === 'P') return readCstring(message, readCstring(message, 5).end).text;
  return '';
}
