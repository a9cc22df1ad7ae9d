// Weir passes on exactly what was sent: every request of the battery with every answer, directly and through the built
// Worker in workerd, compared byte for byte.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { patternBlocks } from '../../local/origin/content.ts';
import { type Origin, startOrigin } from '../../local/origin.ts';
import type { Weir } from '../../local/weir.ts';
import { eventually, MEGABYTE, NEVER_MS, sha256 } from '../local/origin-harness.ts';
import { startWeir } from '../shared/weir.ts';
import { ANSWERS, REQUESTS } from './fidelity-battery.ts';
import { answerTo, exchange, open } from './fidelity-exchange.ts';

const TIMEOUT_MS = 5_000;

let origin: Origin;
let weir: Weir;
let url: string;
beforeAll(async () => {
  origin = await startOrigin();
  const variables = { ORIGIN_URL: origin.url, ORIGIN_TIMEOUT_MS: String(TIMEOUT_MS) };
  weir = await startWeir(variables, { isolates: ['one'] });
  const rule = { scope: 'ip', algorithm: 'fixed-window', limit: 1_000_000, windowSeconds: 3600 };
  await weir.admin('/rules', { method: 'POST', body: { resource: '/*', ...rule } });
  url = weir.isolates.urls['one'] ?? '';
  const limit = async () => (await weir.call('/')).headers.get('X-RateLimit-Limit');
  while ((await limit()) !== '1000000');
});
afterAll(async () => {
  await weir?.[Symbol.asyncDispose]();
  await origin?.stop();
});

const GET = { method: 'GET' };
const latest = () => origin.requests.entries.at(-1);
const asked = (path: string) => origin.requests.entries.find((entry) => entry.path === path);
const get = async (path: string) => {
  const call = open(url, path, GET);
  call.end();
  return answerTo(call);
};

describe.each(Object.entries(REQUESTS))('%s', (_, sent) => {
  it.each(Object.entries(ANSWERS))('is the same through Weir, answered with %s', async (_name, switches) => {
    // A URL parser would write this path differently. Weir keeps it as it was sent.
    const path = `/a/B.c/%C3%A9%3A;p=1?x=%41%2f+%20&&=&x=~${switches && `&${switches}`}`;
    const directly = await exchange(origin, origin.url, path, sent);
    const through = await exchange(origin, url, path, sent);
    expect(through).toEqual(directly);
    expect(through.requests).toBe(1);
  });
});

describe('headers that Weir adds', () => {
  it('name the client’s address and host, and nothing that the client made up', async () => {
    const made = [
      'X-Weir-User',
      'admin',
      'X_Weir_Tier',
      'gold',
      'X-Forwarded-For',
      '6.6.6.6',
      'X-Forwarded-Host',
      'evil',
    ];
    const call = open(url, '/', {
      method: 'GET',
      headers: [...made, 'Connection', 'X-Mine, close', 'X-Mine', '1'],
    });
    call.end();
    (await answerTo(call)).resume();
    const seen = Object.fromEntries(
      (latest()?.headers ?? []).map(([name, value]) => [name.toLowerCase(), value]),
    );
    expect(seen).toEqual({
      host: new URL(origin.url).host,
      'cf-worker': expect.anything(),
      'x-forwarded-for': '6.6.6.6, 192.0.2.1',
      'x-forwarded-host': 'api.example.com',
      'x-forwarded-proto': 'http',
      'x-weir-hop': expect.stringMatching(/^[0-9a-f]{16}$/),
    });
  });
});

describe('streams', () => {
  it.each([
    ['a line', `/?stream=2&interval=${NEVER_MS}`, 'line 1\n'],
    ['an event', `/sse?interval=${NEVER_MS}`, 'id: 1\nevent: tick\ndata: {"n":1}\n\n'],
  ])('%s arrives before the origin makes the next one', async (_, path, first) => {
    const response = await get(path);
    const [chunk] = await once(response, 'data');
    expect(chunk.toString()).toBe(first);
    response.destroy();
  });

  it('a compressed line arrives before the next one, too', async () => {
    const response = await get(`/?gzip=1&stream=2&interval=${NEVER_MS}`);
    const [chunk] = await once(response, 'data');
    expect(chunk.length).toBeGreaterThan(10);
    response.destroy();
  });

  it.each([true, false])(
    'the first byte of an upload arrives before the last is sent (chunked: %s)',
    async (chunked) => {
      origin.requests.clear();
      const call = open(url, '/', { method: 'POST', body: new Uint8Array(10), chunked });
      call.write('first');
      await eventually(() => expect(latest()).toMatchObject({ bodyBytes: 5, state: 'open' }));
      call.end('later');
      expect((await answerTo(call)).resume().statusCode).toBe(200);
    },
  );

  it('256 MB go up and come down whole', async () => {
    const size = 256 * MEGABYTE;
    const call = open(url, '/', { method: 'PUT', headers: ['Content-Length', String(size)] });
    const answered = answerTo(call);
    await pipeline(Readable.from(patternBlocks(size)), call);
    const echo = await (await answered).toArray();
    const expected = sha256(patternBlocks(size));
    expect(JSON.parse(Buffer.concat(echo).toString())).toMatchObject({
      bodyBytes: size,
      bodySha256: expected,
    });

    expect(await hashOf(await get(`/?bytes=${size}`))).toBe(expected);
  }, 60_000);

  it('a client that does not read slows the origin down, and nothing piles up in between', async () => {
    const response = await get('/?bytes=8000000000');
    await settled(() => latest()?.sentBytes ?? 0);
    expect(latest()?.sentBytes).toBeLessThan(64 * MEGABYTE);
    response.destroy();
    await eventually(() => expect(latest()?.state).toBe('aborted'));
  });

  it('an origin that does not read slows the client down', async () => {
    const call = open(url, '/?stall=1', { method: 'PUT', chunked: true }).on('error', () => {});
    pipeline(Readable.from(patternBlocks(8_000_000_000)), call).catch(() => {});
    // Before that, only the decision delays the client.
    await eventually(() => expect(asked('/?stall=1')).toBeDefined());
    await settled(() => call.socket?.bytesWritten ?? 0);
    expect(call.socket?.bytesWritten).toBeLessThan(64 * MEGABYTE);
    call.destroy();
  });
});

/** Waits until the figure has grown and stops growing. */
async function settled(figure: () => number): Promise<void> {
  let before = -1;
  await eventually(() => {
    const previous = before;
    before = figure();
    expect(before > 0 && before === previous).toBe(true);
  });
}

async function hashOf(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of chunks) hash.update(chunk);
  return hash.digest('hex');
}

describe('a client that leaves', () => {
  it.each([
    ['before the answer', 'GET', '/left?hang=1', ''],
    ['before the answer to its upload', 'POST', '/left-upload?hang=1', 'Content-Length: 3\r\n\r\nabc'],
    ['in the middle of its upload', 'POST', '/left-in-upload', 'Content-Length: 1000\r\n\r\nabc'],
    ['in the middle of the answer', 'GET', `/sse?interval=${NEVER_MS}`, ''],
  ])('%s ends the request to the origin, long before the timeout', async (_, method, path, rest) => {
    // Looks for its path, because requests of other clients may still be on their way to the origin.
    origin.requests.clear();
    const own = () => asked(path);
    const socket = connect(Number(new URL(url).port), new URL(url).hostname).on('error', () => {});
    socket.resume().write(`${method} ${path} HTTP/1.1\r\nHost: a\r\nX-Weir-Region: us\r\n${rest || '\r\n'}`);
    await eventually(() => expect(own()).toMatchObject({ state: 'open', ...(rest && { bodyBytes: 3 }) }));
    const openedAtMs = performance.now();
    // With a reset: a client that still waits for its answer may also end its sending side.
    socket.resetAndDestroy();
    await eventually(() => expect(own()?.state).toBe('aborted'));
    expect(performance.now() - openedAtMs).toBeLessThan(TIMEOUT_MS - 1_000);
  });
});

const problemOf = async (path: string) => {
  const response = await get(path);
  const { code } = JSON.parse(Buffer.concat(await response.toArray()).toString());
  return [response.statusCode, code, response.headers['content-type']];
};

describe('an origin that fails', () => {
  it('before it answers is a 502', async () => {
    expect(await problemOf('/?fail=reset')).toEqual([502, 'origin-unreachable', 'application/problem+json']);
  });

  it('with early hints, which the runtime takes for the answer, is a 502 and not a garbled answer', async () => {
    expect(await problemOf('/?early=103')).toEqual([502, 'origin-unreachable', 'application/problem+json']);
    expect((await get('/')).resume().statusCode).toBe(200);
  });

  it('in the middle of its answer breaks off the answer to the client', async () => {
    const response = await get('/?bytes=100000&fail=half');
    await expect(response.toArray()).rejects.toThrow('aborted');
  });
});

describe.concurrent('an origin', () => {
  it('that does not answer in time is a 504, and its request is ended', async ({ expect }) => {
    expect(await problemOf('/slow?hang=1')).toEqual([504, 'origin-timeout', 'application/problem+json']);
    const asked = () => origin.requests.entries.find(({ path }) => path === '/slow?hang=1');
    await expect.poll(() => asked()?.state).toBe('aborted');
  });

  it('may take longer if the upload is slow', async ({ expect }) => {
    const call = open(url, '/', { method: 'POST', chunked: true });
    call.write('first');
    await new Promise((resolve) => setTimeout(resolve, TIMEOUT_MS + 500));
    call.end('last');
    expect((await answerTo(call)).resume().statusCode).toBe(200);
  });
});

describe('a WebSocket', () => {
  it('passes with its subprotocol and headers, text and binary, and the close code of the origin', async () => {
    const headers = { 'X-Seen': 'yes', 'X-Weir-Region': 'us', 'X-Weir-User': 'admin' };
    const socket = new WebSocket(`${url.replace('http', 'ws')}/w?greet=1&header=X-Extra:1`, ['one', 'two'], {
      headers,
    });
    const upgraded = once(socket, 'upgrade');
    const [greeting] = await once(socket, 'message');
    const told = JSON.parse(greeting.toString());
    expect([told.path, told.protocol, socket.protocol]).toEqual([
      '/w?greet=1&header=X-Extra:1',
      'one',
      'one',
    ]);
    expect(told.headers).toContainEqual(['X-Seen', 'yes']);
    expect(JSON.stringify(told.headers)).not.toContain('admin');
    expect((await upgraded)[0].headers['x-extra']).toBe('1');
    for (const message of ['text', Buffer.from([0, 255]), 'x'.repeat(500_000)]) {
      socket.send(message);
      const [data, isBinary] = await once(socket, 'message');
      expect([data.toString('latin1'), isBinary]).toEqual([
        message.toString('latin1' as 'utf8'),
        typeof message !== 'string',
      ]);
    }
    socket.send('close:4321');
    expect((await once(socket, 'close'))[0]).toBe(4321);
  });

  it('that the origin refuses gets the answer of the origin', async () => {
    const socket = new WebSocket(`${url.replace('http', 'ws')}/?status=401`, {
      headers: { 'X-Weir-Region': 'us' },
    });
    const [, response] = await once(socket, 'unexpected-response');
    expect(response.resume().statusCode).toBe(401);
  });
});
