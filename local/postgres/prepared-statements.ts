// All TCP clients share PGlite's one session, but no client may see the prepared statements of another. A named
// statement gets a unique name. The unnamed one is parsed again if another client has replaced it.
import { Buffer } from 'node:buffer';
import { closeStatement, cstring, frame, readCstring, type TypedMessage, typeOf } from './pg-messages.ts';

/** The client whose text the session's unnamed statement holds now. */
export interface UnnamedStatement {
  owner: number | null;
}

export interface PreparedStatements {
  /** Replaces the names of this client in the batch. */
  translate(batch: TypedMessage[]): TypedMessage[];
  /** The Parse to run before `batch`, if another client has replaced its unnamed statement. */
  lost(batch: TypedMessage[]): TypedMessage | null;
  /** The messages to run when the client leaves. */
  closeAll(): TypedMessage[];
}

interface Reference {
  statement: string;
  rename(name: string): TypedMessage;
}

export function createPreparedStatements(clientId: number, unnamed: UnnamedStatement): PreparedStatements {
  const names = new Map<string, string>();
  let ownUnnamed: TypedMessage | null = null;

  const privateName = (name: string): string => {
    const known = names.get(name);
    if (known !== undefined) return known;
    // A counter instead of the client's name with a prefix, because Postgres cuts names at 63 bytes.
    const fresh = `c${clientId}_${names.size}`;
    names.set(name, fresh);
    return fresh;
  };

  return {
    translate: (batch) =>
      batch.map((message) => {
        const reference = referenceIn(message);
        if (reference === null || reference.statement === '') return message;
        return reference.rename(privateName(reference.statement));
      }),
    lost(batch) {
      let replay: TypedMessage | null = null;
      for (const message of batch) {
        const type = typeOf(message);
        const isUnnamed = referenceIn(message)?.statement === '';
        if (type === 'Q' || (type === 'P' && isUnnamed)) {
          // A simple query drops the unnamed statement, as in any Postgres.
          ownUnnamed = type === 'Q' ? null : Buffer.from(message);
          unnamed.owner = clientId;
        } else if (isUnnamed && unnamed.owner !== clientId && ownUnnamed !== null) {
          replay = ownUnnamed;
          unnamed.owner = clientId;
        }
      }
      return replay;
    },
    closeAll: () => [...names.values()].map(closeStatement),
  };
}

/** The statement that a Parse, Bind, Describe or Close names. Null for messages that name none. */
function referenceIn(message: TypedMessage): Reference | null {
  const type = typeOf(message);
  if (type === 'P') return reference(message, 5);
  if (type === 'B') return reference(message, readCstring(message, 5).end);
  if ((type === 'D' || type === 'C') && message[5] === 0x53) return reference(message, 6);
  return null;
}

function reference(message: TypedMessage, offset: number): Reference {
  const { text, end } = readCstring(message, offset);
  return {
    statement: text,
    rename: (name) =>
      frame(typeOf(message), message.subarray(5, offset), cstring(name), message.subarray(end)),
  };
}
