// Reads request bodies and sends answers: whole ones, and half ones for a fault.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Answer } from './replies.ts';

export const MAX_BODY_BYTES = 10 * 1024 * 1024;
const PATIENCE_BYTES = 10 * MAX_BODY_BYTES;

/** The body. Undefined if it is larger than Upstash accepts. */
export async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  // Reads to the end even if the body is too large: a client that is cut off while sending sees a reset instead of the
  // answer.
  for await (const chunk of request) {
    size += chunk.length;
    if (size <= MAX_BODY_BYTES) chunks.push(chunk);
    else if (size > PATIENCE_BYTES) request.destroy();
  }
  return size <= MAX_BODY_BYTES ? Buffer.concat(chunks) : undefined;
}

/** Resolves when the answer is sent or the client has left. */
export function sendAnswer(response: ServerResponse, answer: Answer): Promise<void> {
  return new Promise((resolve) => {
    response.once('close', resolve);
    writeHead(response, answer);
    response.end(answer.body, resolve);
  });
}

/** Sends the head and half of the body, then drops the connection. */
export function sendHalf(response: ServerResponse, answer: Answer): Promise<void> {
  const half = answer.body.slice(0, Math.ceil(answer.body.length / 2));
  return new Promise((resolve) => {
    response.once('close', resolve);
    writeHead(response, answer);
    response.write(half, () => response.destroy());
  });
}

function writeHead(
  response: ServerResponse,
  { status, body, contentType = 'application/json' }: Answer,
): void {
  response.writeHead(status, { 'Content-Type': contentType, 'Content-Length': Buffer.byteLength(body) });
}
