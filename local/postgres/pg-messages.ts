// The few messages of the Postgres wire protocol that PGlite's TCP port reads or writes itself. All others pass through
// as bytes.
import { Buffer } from 'node:buffer';

export const SSL_REQUEST = 80877103;
export const GSS_REQUEST = 80877104;
export const CANCEL_REQUEST = 80877102;

export type TypedMessage = Buffer;

export function typeOf(message: TypedMessage): string {
  return String.fromCharCode(message[0] ?? 0);
}

export function frame(type: string, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  const head = Buffer.alloc(5);
  head.write(type, 'latin1');
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

export function cstring(text: string): Buffer {
  return Buffer.from(`${text}\0`);
}

export function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

/** The zero-terminated string at `offset`, and where the next field starts. */
export function readCstring(message: Buffer, offset: number): { text: string; end: number } {
  const zero = message.indexOf(0, offset);
  const end = zero === -1 ? message.length : zero;
  return { text: message.subarray(offset, end).toString(), end: end + 1 };
}

export const SYNC = frame('S');

export function query(sql: string): Buffer {
  return frame('Q', cstring(sql));
}

export function closeStatement(name: string): Buffer {
  return frame('C', Buffer.from('S'), cstring(name));
}

export function readyForQuery(status: 'I' | 'T' | 'E'): Buffer {
  return frame('Z', Buffer.from(status));
}

export function errorResponse(severity: 'ERROR' | 'FATAL', code: string, text: string): Buffer {
  return frame(
    'E',
    cstring(`S${severity}`),
    cstring(`V${severity}`),
    cstring(`C${code}`),
    cstring(`M${text}`),
    cstring(''),
  );
}

/**
 * A server's messages after a successful login: settings, a key that nobody can use (there is no cancel), and "ready".
 */
export function welcome(settings: Map<string, string>, clientId: number): Buffer {
  const statuses = [...settings].map(([name, value]) => frame('S', cstring(name), cstring(value)));
  const key = frame('K', int32(clientId), int32(0));
  return Buffer.concat([frame('R', int32(0)), ...statuses, key, readyForQuery('I')]);
}

/** Cuts a stream into whole typed messages. `rest` is the beginning of the next one. */
export function splitMessages(bytes: Buffer): { messages: TypedMessage[]; rest: Buffer } {
  const messages: TypedMessage[] = [];
  const lengths = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let offset = 0;
  while (bytes.length - offset >= 5) {
    const end = offset + 1 + lengths.getInt32(offset + 1);
    if (end < offset + 5) throw new Error('a message with an impossible length');
    if (end > bytes.length) break;
    messages.push(bytes.subarray(offset, end));
    offset = end;
  }
  return { messages, rest: bytes.subarray(offset) };
}
