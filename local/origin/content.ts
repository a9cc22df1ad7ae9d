// The bodies that the demo origin can answer with. All are generators, so that back-pressure reaches
// the source and a body of gigabytes costs one block of memory.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Echo } from './echo.ts';
import { HELP } from './help.ts';
import { type HeaderPair, rawPath, type Switches } from './switches.ts';

export interface Content {
  type: string;
  /** Set if the length is known before the body is made. Without it the answer is chunked. */
  lengthBytes?: number;
  headers?: HeaderPair[];
  /** The body, or its first part: `share` is 0.5 when the origin is to fail half-way. */
  chunks(share: number, signal: AbortSignal): Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
}

export function createContent(echo: Echo, switches: Switches): Content {
  const path = rawPath(echo.path);
  if (path === '/_origin') return fixedContent('text/plain; charset=utf-8', HELP);
  if (path === '/sse') return sseContent(switches);
  if (path === '/llm') return llmContent(switches);
  if (switches.bytes !== undefined) return bytesContent(switches.bytes);
  if (switches.stream !== undefined) return linesContent(switches.stream, switches.intervalMs);
  return fixedContent('application/json', `${JSON.stringify(echo)}\n`);
}

export function fixedContent(type: string, text: string): Content {
  const body = Buffer.from(text);
  return { type, lengthBytes: body.length, chunks: (share) => [body.subarray(0, body.length * share)] };
}

// The period is a prime: a chunk that is lost, doubled or out of place changes the bytes after it.
const PATTERN_PERIOD = 251;
const BLOCK = Uint8Array.from({ length: PATTERN_PERIOD * 256 }, (_, i) => i % PATTERN_PERIOD);

/** Byte i of the answer to `?bytes=N` is i modulo 251. */
export function* patternBlocks(bytes: number): Generator<Uint8Array> {
  for (let left = bytes; left > 0; left -= BLOCK.length) {
    yield left < BLOCK.length ? BLOCK.subarray(0, left) : BLOCK;
  }
}

function bytesContent(bytes: number): Content {
  return {
    type: 'application/octet-stream',
    lengthBytes: bytes,
    chunks: (share) => patternBlocks(Math.floor(bytes * share)),
  };
}

function linesContent(count: number, intervalMs: number): Content {
  return {
    type: 'text/plain; charset=utf-8',
    chunks: (share, signal) =>
      paced(
        numbered(count * share, (n) => `line ${n}\n`),
        intervalMs,
        signal,
      ),
  };
}

const EVENT_STREAM = {
  type: 'text/event-stream',
  headers: [['Cache-Control', 'no-cache']] satisfies HeaderPair[],
};

function sseContent({ count, intervalMs }: Switches): Content {
  const event = (n: number) => `id: ${n}\nevent: tick\ndata: {"n":${n}}\n\n`;
  return {
    ...EVENT_STREAM,
    chunks: (share, signal) => paced(numbered(count * share, event), intervalMs, signal),
  };
}

/** A reply of one word per event, then the usage, then [DONE]. A word counts as a token. */
function llmContent({ prompt, intervalMs }: Switches): Content {
  const asked = prompt.split(/\s+/).filter(Boolean);
  const reply = ['You', 'asked:', ...asked];
  const usage = {
    prompt_tokens: asked.length,
    completion_tokens: reply.length,
    total_tokens: asked.length + reply.length,
  };
  const events = [...reply.map((word) => ({ delta: word })), { usage }].map(
    (data) => `data: ${JSON.stringify(data)}\n\n`,
  );
  events.push('data: [DONE]\n\n');
  const cost: HeaderPair = ['X-Weir-Cost', String(usage.total_tokens)];
  return {
    type: EVENT_STREAM.type,
    headers: [...EVENT_STREAM.headers, cost],
    chunks: (share, signal) => paced(events.slice(0, events.length * share), intervalMs, signal),
  };
}

function* numbered(count: number, render: (n: number) => string): Generator<string> {
  for (let n = 1; n <= count; n++) yield render(n);
}

async function* paced(
  texts: Iterable<string>,
  intervalMs: number,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  let first = true;
  for (const text of texts) {
    if (!first && intervalMs > 0) await sleep(intervalMs, undefined, { signal });
    first = false;
    yield Buffer.from(text);
  }
}
