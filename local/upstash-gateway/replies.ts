// Writes Redis replies as the JSON of the Upstash REST API, plain or with every string in base64.
import type { Reply } from './redis-link.ts';

export type Encoding = 'utf8' | 'base64';

export interface Answer {
  status: number;
  body: string;
  contentType?: string;
}

const OK = Buffer.from('OK');

export function renderSingle(reply: Reply, encoding: Encoding): Answer {
  return { status: reply instanceof Error ? 400 : 200, body: renderEntry(reply, encoding) };
}

export function renderList(replies: readonly Reply[], encoding: Encoding): Answer {
  return { status: 200, body: `[${replies.map((reply) => renderEntry(reply, encoding)).join(',')}]` };
}

export function renderError(status: number, message: string): Answer {
  return { status, body: JSON.stringify({ error: message }) };
}

function renderEntry(reply: Reply, encoding: Encoding): string {
  if (reply instanceof Error) return JSON.stringify({ error: reply.message });
  const plain = reply instanceof Buffer && reply.equals(OK);
  return `{"result":${renderValue(reply, plain ? 'utf8' : encoding)}}`;
}

function renderValue(reply: Reply, encoding: Encoding): string {
  if (reply === null) return 'null';
  // Keeps the digits that Redis sent: JSON has no limit where a JavaScript number would lose some.
  if (typeof reply === 'string') return reply;
  if (Array.isArray(reply)) return `[${reply.map((item) => renderValue(item, encoding)).join(',')}]`;
  if (reply instanceof Error) return JSON.stringify(reply.message);
  return JSON.stringify(reply.toString(encoding));
}
