// The demo origin over real sockets: every switch, streaming in both directions, and cleaning up after clients.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import { patternBlocks } from '../../local/origin/content.ts';
import { type Origin, startOrigin } from '../../local/origin.ts';

const MEGABYTE = 1024 * 1024;
const NEVER_MS = 3_600_000;

let origin: Origin;
beforeAll(async () => {
  origin = await startOrigin({ port: 0 });
});
afterAll(() => origin.stop());
beforeEach(() => origin.requests.clear());

interface CallOptions {
  method?: string;
  headers?: string[];
  body?: string | Uint8Array | Readable;
}

function send(path: string, { method = 'GET', headers = [], body }: CallOptions = {}): ClientRequest {
  const host = ['Host', `127.0.0.1:${origin.port}`];
  const call = request({
    port: origin.port,
    host: '127.0.0.1',
    path,
    method,
    headers: [...host, ...headers],
  });
  if (body instanceof Readable) pipeline(body, call).catch(() => {});
  else call.end(body);
  return call;
}

async function open(path: string, options?: CallOptions): Promise<IncomingMessage> {
  const [response] = await once(send(path, options), 'response');
  return response;
}

async function call(path: string, options?: CallOptions) {
  const response = await open(path, options);
  const bytes = await buffer(response);
  const { statusCode: status, headers, rawHeaders } = response;
  return {
    status,
    headers,
    rawHeaders,
    bytes,
    text: bytes.toString(),
    json: () => JSON.parse(bytes.toString()),
  };
}

function sha256(chunks: Iterable<Uint8Array | string>): string {
  const hash = createHash('sha256');
  for (const chunk of chunks) hash.update(chunk);
  return hash.digest('hex');
}

/** Memory still in use after a full collection; the second one waits for the sweep that the first began. */
function retainedBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc');
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const eventually = (check: () => void) => vi.waitFor(check, { timeout: 10_000, interval: 20 });
const latest = () => origin.requests.entries.at(-1);
const latestState = () => latest()?.state;

describe('echo', () => {
  test('shows method, raw path, and headers in their order and case, duplicates included', async () => {
    const path = '/A//b/%2e%2e/;x?q=%20&q=2';
    const answer = await call(path, {
      method: 'PATCH',
      headers: ['X-Two', 'a', 'x-TWO', 'b'],
      body: 'héllo',
    });
    expect(answer.status).toBe(200);
    expect(answer.headers['content-type']).toBe('application/json');
    expect(answer.json()).toMatchObject({ method: 'PATCH', path, body: 'héllo', bodyEncoding: 'utf-8' });
    expect(answer.json()).toMatchObject({ bodyBytes: 6, bodySha256: sha256(['héllo']) });
    expect(answer.json().headers).toEqual(
      expect.arrayContaining([
        ['X-Two', 'a'],
        ['x-TWO', 'b'],
      ]),
    );
  });

  test.each(['GET', 'POST', 'PUT', 'DELETE', 'PROPFIND', 'QUERY'])('answers %s', async (method) => {
    expect((await call('/', { method })).json().method).toBe(method);
  });

  test('answers HEAD with the headers of GET and no body', async () => {
    const head = await call('/?bytes=5000000000', { method: 'HEAD' });
    expect([head.status, head.headers['content-length'], head.bytes.length]).toEqual([200, '5000000000', 0]);
  });

  test('answers OPTIONS, also of *, with the methods it allows', async () => {
    for (const path of ['/x', '*']) {
      const answer = await call(path, { method: 'OPTIONS' });
      expect(answer.headers.allow).toContain('PATCH');
      expect(answer.json().path).toBe(path);
    }
  });

  test('echoes bytes that are not UTF-8 as base64', async () => {
    const answer = await call('/', { method: 'POST', body: Uint8Array.of(0xff, 0x00, 0xfe) });
    expect(answer.json()).toMatchObject({ body: '/wD+', bodyEncoding: 'base64', bodyBytes: 3 });
  });

  test('echoes a body of 64 KB and not one byte more', async () => {
    const body = 'x'.repeat(65_536);
    expect((await call('/', { method: 'POST', body })).json().body).toBe(body);
    const larger = (await call('/', { method: 'POST', body: `${body}y` })).json();
    expect(larger).toMatchObject({ body: null, bodyEncoding: null, bodyBytes: 65_537 });
    expect(larger.bodySha256).toBe(sha256([body, 'y']));
  });

  test('hashes an upload of 64 MB without keeping it', async () => {
    const before = retainedBytes();
    let during = 0;
    const body = Readable.from(
      (function* () {
        yield* patternBlocks(63 * MEGABYTE);
        during = retainedBytes();
        yield new Uint8Array(MEGABYTE);
      })(),
    );
    const echo = (await call('/', { method: 'PUT', body })).json();
    expect(echo.bodyBytes).toBe(64 * MEGABYTE);
    expect(echo.bodySha256).toBe(sha256([...patternBlocks(63 * MEGABYTE), new Uint8Array(MEGABYTE)]));
    expect(during - before).toBeLessThan(16 * MEGABYTE);
  });

  test('logs the bytes of an upload while it is still arriving', async () => {
    const upload = new Readable({ read() {} });
    upload.push('first');
    const sent = send('/', { method: 'POST', body: upload });
    await eventually(() => expect(latest()?.bodyBytes).toBe(5));
    expect(latest()?.state).toBe('open');
    upload.push(null);
    const [response] = await once(sent, 'response');
    response.resume();
    await eventually(() => expect(latestState()).toBe('finished'));
  });
});

describe('switches', () => {
  test('delay waits before answering', async () => {
    const start = performance.now();
    await call('/?delay=50');
    expect(performance.now() - start).toBeGreaterThanOrEqual(49);
  });

  test.each([200, 201, 404, 418, 429, 503, 599])(
    'status=%i answers that status with the echo',
    async (status) => {
      const answer = await call(`/?status=${status}`);
      expect([answer.status, answer.json().method]).toEqual([status, 'GET']);
    },
  );

  test.each([204, 205, 304])(
    'status=%i answers without a body and keeps the connection usable',
    async (status) => {
      const answer = await call(`/?status=${status}`);
      expect([answer.status, answer.bytes.length]).toEqual([status, 0]);
      expect((await call('/')).status).toBe(200);
    },
  );

  test('status=204 carries no content headers', async () => {
    const { headers } = await call('/?status=204&gzip=1');
    expect(Object.keys(headers).filter((name) => name.startsWith('content-'))).toEqual([]);
  });

  test('location makes a redirect', async () => {
    const answer = await call('/?status=307&location=%2Fnext%3Fa%3D1');
    expect([answer.status, answer.headers.location]).toEqual([307, '/next?a=1']);
  });

  test('header adds headers as spelled, twice if given twice, and replaces the defaults', async () => {
    const answer = await call('/?header=Set-Cookie:a%3D1&header=Set-Cookie:b%3D2&header=content-TYPE:text/x');
    expect(answer.headers['set-cookie']).toEqual(['a=1', 'b=2']);
    expect(answer.rawHeaders.filter((name) => name.toLowerCase() === 'content-type')).toEqual([
      'content-TYPE',
    ]);
  });

  test('cost names the cost in X-Weir-Cost', async () => {
    expect((await call('/?cost=42')).headers['x-weir-cost']).toBe('42');
  });

  test('bytes answers the pattern with its length', async () => {
    const answer = await call('/?bytes=70000');
    expect(answer.headers['content-length']).toBe('70000');
    expect(sha256([answer.bytes])).toBe(sha256([Uint8Array.from({ length: 70_000 }, (_, i) => i % 251)]));
    expect((await call('/?bytes=0')).bytes.length).toBe(0);
  });

  test('gzip compresses any body and says so', async () => {
    const echo = await call('/zip?gzip=1');
    expect([echo.headers['content-encoding'], echo.headers['content-length']]).toEqual(['gzip', undefined]);
    expect(JSON.parse(gunzipSync(echo.bytes).toString()).path).toBe('/zip?gzip=1');
    expect(gunzipSync((await call('/?gzip=1&bytes=200000')).bytes).length).toBe(200_000);
  });

  test('stream sends chunked lines', async () => {
    const answer = await call('/?stream=3&interval=1');
    expect(answer.headers['transfer-encoding']).toBe('chunked');
    expect(answer.text).toBe('line 1\nline 2\nline 3\n');
  });

  test('stream sends each line before waiting for the next', async () => {
    const response = await open(`/?stream=2&interval=${NEVER_MS}`);
    const [chunk] = await once(response, 'data');
    expect(chunk.toString()).toBe('line 1\n');
    response.destroy();
  });

  test('gzip does not hold back the lines of a stream', async () => {
    const response = await open(`/?gzip=1&stream=2&interval=${NEVER_MS}`);
    const [chunk] = await once(response, 'data');
    expect(chunk.length).toBeGreaterThan(10);
    response.destroy();
  });

  test('early=103 sends a Link ahead of the answer', async () => {
    const sent = send('/?early=103&status=201');
    const [[hints], [response]] = await Promise.all([once(sent, 'information'), once(sent, 'response')]);
    expect([hints.statusCode, hints.headers.link]).toEqual([103, '</style.css>; rel=preload; as=style']);
    expect(response.resume().statusCode).toBe(201);
  });

  test('fail=reset cuts the connection without an answer', async () => {
    await expect(call('/?fail=reset', { method: 'POST', body: 'x' })).rejects.toThrow(/ECONNRESET|hang up/);
  });

  test.each(['bytes=10000', 'stream=4&interval=0'])('fail=half with %s sends half and cuts', async (body) => {
    const whole = (await call(`/?${body}`)).bytes;
    const response = await open(`/?fail=half&${body}`);
    const received: Uint8Array[] = [];
    response.on('data', (chunk) => received.push(chunk));
    await expect(once(response, 'end')).rejects.toThrow('aborted');
    expect(sha256(received)).toBe(sha256([whole.subarray(0, whole.length / 2)]));
  });

  test('hang reads the request and never answers', async () => {
    const sent = send('/?hang=1', { method: 'POST', body: 'abc' });
    const failed = once(sent, 'response');
    await eventually(() => expect(latest()?.bodyBytes).toBe(3));
    expect(latestState()).toBe('open');
    sent.destroy(new Error('left'));
    await expect(failed).rejects.toThrow('left');
    await eventually(() => expect(latestState()).toBe('aborted'));
  });

  test('switches combine', async () => {
    const answer = await call('/?status=503&bytes=1000&gzip=1&cost=7&delay=1&header=Retry-After:3');
    expect(answer.headers).toMatchObject({
      'x-weir-cost': '7',
      'retry-after': '3',
      'content-encoding': 'gzip',
    });
    expect([answer.status, gunzipSync(answer.bytes).length]).toEqual([503, 1000]);
  });

  test.each([
    ['status=abc', 'status', 'whole number from 200 to 599'],
    ['status=101', 'status', 'whole number'],
    ['delay=-1', 'delay', 'whole number'],
    ['bytes=', 'bytes', 'whole number'],
    ['bytes=1e3', 'bytes', 'whole number'],
    ['cost=1.5', 'cost', 'whole number'],
    ['delay=1&delay=2', 'delay', 'more than once'],
    ['gzip=yes', 'gzip', 'must be 0 or 1'],
    ['fail=later', 'fail', 'must be reset or half'],
    ['early=100', 'early', 'must be 103'],
    ['header=NoColon', 'header', 'Name:Value'],
    ['header=Bad%20Name:x', 'header', 'valid HTTP token'],
    ['header=X:a%0Ab', 'header', 'Invalid character'],
    ['header=Content-Length:1', 'header', 'cannot be set'],
    ['location=%0A', 'location', 'Invalid character'],
    ['bytes=1&stream=1', 'stream', 'cannot combine'],
  ])('refuses %s and says why', async (query, name, reason) => {
    const answer = await call(`/?${query}`);
    expect([answer.status, answer.headers['content-type']]).toEqual([400, 'application/json']);
    expect(answer.json()).toEqual({
      error: 'bad_switch',
      switch: name,
      reason: expect.stringContaining(reason),
    });
  });
});

describe('paths', () => {
  test('/missing is 404', async () => {
    expect((await call('/missing?x=1')).status).toBe(404);
  });

  test('/sse sends events one by one', async () => {
    const answer = await call('/sse?count=2&interval=0');
    expect(answer.headers['content-type']).toBe('text/event-stream');
    expect(answer.text).toBe('id: 1\nevent: tick\ndata: {"n":1}\n\nid: 2\nevent: tick\ndata: {"n":2}\n\n');
  });

  test('/llm streams words, then the tokens used, which are also the cost', async () => {
    const answer = await call('/llm?prompt=why+is+it&interval=0');
    const events = answer.text.trim().split('\n\n');
    expect(events.slice(0, 3)).toEqual(
      ['You', 'asked:', 'why'].map((delta) => `data: ${JSON.stringify({ delta })}`),
    );
    expect(events.at(-2)).toContain('{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8}');
    expect([events.at(-1), answer.headers['x-weir-cost']]).toEqual(['data: [DONE]', '8']);
    expect((await call('/llm?interval=0&cost=99')).headers['x-weir-cost']).toBe('99');
  });

  test('/_origin names every switch in plain text', async () => {
    const help = await call('/_origin');
    expect(help.headers['content-type']).toContain('text/plain');
    const names =
      'delay status location header cost bytes stream interval gzip early fail hang greet count prompt';
    for (const name of names.split(' ')) expect(help.text).toMatch(new RegExp(`\\b${name}=`));
  });

  test.each(['/sse?bytes=1', '/llm?stream=1'])(
    '%s is refused, as the path has its own body',
    async (path) => {
      expect((await call(path)).status).toBe(400);
    },
  );
});

describe('large answers', () => {
  test('64 MB arrive intact while memory stays flat', async () => {
    const before = retainedBytes();
    const peaks: number[] = [];
    const hash = createHash('sha256');
    let received = 0;
    for await (const chunk of await open(`/?bytes=${64 * MEGABYTE}`)) {
      hash.update(chunk);
      received += chunk.length;
      if (received > (peaks.length + 1) * 8 * MEGABYTE) peaks.push(retainedBytes() - before);
    }
    expect(hash.digest('hex')).toBe(sha256(patternBlocks(64 * MEGABYTE)));
    expect(peaks.length).toBeGreaterThan(5);
    expect(Math.max(...peaks)).toBeLessThan(16 * MEGABYTE);
  });

  test('a client that does not read stalls the origin, and its leaving frees it', async () => {
    const response = await open('/?bytes=8000000000');
    let sent = -1;
    await eventually(() => {
      const previous = sent;
      sent = latest()?.sentBytes ?? 0;
      expect(sent).toBe(previous);
    });
    expect(sent).toBeLessThan(64 * MEGABYTE);
    expect(latestState()).toBe('open');
    response.destroy();
    await eventually(() => expect(latestState()).toBe('aborted'));
    expect(latest()?.sentBytes).toBeLessThan(64 * MEGABYTE);
  });

  test.each([`/?delay=${NEVER_MS}`, `/sse?interval=${NEVER_MS}`, '/?hang=1'])(
    'a client that leaves %s leaves no open request behind',
    async (path) => {
      const sent = send(path).on('error', () => {});
      sent.on('response', (response) => response.on('error', () => {}).resume());
      await eventually(() => expect(latestState()).toBe('open'));
      sent.destroy();
      await eventually(() => expect(latestState()).toBe('aborted'));
      expect(origin.requests.open).toBe(0);
    },
  );
});

describe('WebSocket', () => {
  const connect = (path: string, protocols: string[] = []) =>
    new WebSocket(`ws://127.0.0.1:${origin.port}${path}`, protocols, { headers: { 'X-Seen': 'yes' } });

  async function exchange(webSocket: WebSocket, message: string | Uint8Array): Promise<[string, boolean]> {
    webSocket.send(message);
    const [data, isBinary] = await once(webSocket, 'message');
    return [data.toString('latin1'), isBinary];
  }

  test('echoes text and binary, and answers ping with pong', async () => {
    const webSocket = connect('/any/path');
    await once(webSocket, 'open');
    expect(await exchange(webSocket, 'hello')).toEqual(['hello', false]);
    expect(await exchange(webSocket, Uint8Array.of(1, 255))).toEqual(['\x01\xff', true]);
    expect(await exchange(webSocket, 'ping')).toEqual(['pong', false]);
    webSocket.close(1000);
    await eventually(() => expect(latest()).toMatchObject({ websocket: true, state: 'finished' }));
  });

  test('greets with the headers received and chooses the first subprotocol offered', async () => {
    const webSocket = connect('/w?greet=1&delay=1&header=X-Extra:1&cost=5', ['one', 'two']);
    const upgraded = once(webSocket, 'upgrade');
    const [greeting] = await once(webSocket, 'message');
    const parsed = JSON.parse(greeting.toString());
    expect([parsed.protocol, webSocket.protocol]).toEqual(['one', 'one']);
    expect(parsed.headers).toContainEqual(['X-Seen', 'yes']);
    const [response] = await upgraded;
    expect(response.headers).toMatchObject({ 'x-extra': '1', 'x-weir-cost': '5' });
    webSocket.close();
  });

  test('closes with the code asked for, and refuses a code that cannot be sent', async () => {
    const webSocket = connect('/');
    await once(webSocket, 'open');
    expect((await exchange(webSocket, 'close:1006'))[0]).toContain('1006');
    webSocket.send('close:4321');
    const [code] = await once(webSocket, 'close');
    expect(code).toBe(4321);
  });

  test.each([
    ['status=401', 401],
    ['status=abc', 400],
  ])('%s refuses the upgrade with %i', async (query, status) => {
    const [, response] = await once(connect(`/?${query}`), 'unexpected-response');
    expect(response.resume().statusCode).toBe(status);
  });

  test('a client that vanishes is logged as aborted', async () => {
    const webSocket = connect('/');
    await once(webSocket, 'open');
    webSocket.terminate();
    await eventually(() => expect(latestState()).toBe('aborted'));
    expect(origin.requests.open).toBe(0);
  });
});

describe('life', () => {
  test('stop cuts what hangs, streams or is upgraded, without waiting', async () => {
    const other = await startOrigin({ port: 0 });
    const hanging = ['/?hang=1', `/?delay=${NEVER_MS}`, `/sse?interval=${NEVER_MS}`].map((path) =>
      fetch(other.url + path).then((response) => response.text()),
    );
    const ended = Promise.allSettled(hanging);
    const webSocket = new WebSocket(other.url.replace('http', 'ws'));
    const closed = once(webSocket, 'close');
    await once(webSocket, 'open');
    await eventually(() => expect(other.requests.open).toBe(4));
    await other.stop();
    expect((await ended).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect((await closed)[0]).toBe(1006);
    await eventually(() => expect(other.requests.open).toBe(0));
    await other.stop();
  });

  test('says in one line that its port is taken', async () => {
    await expect(startOrigin({ port: origin.port })).rejects.toThrow(`port ${origin.port} (origin) is taken`);
  });

  test('counts requests and keeps the latest', async () => {
    await call('/one');
    await call('/two');
    expect(origin.requests.total).toBe(2);
    expect(origin.requests.entries.map(({ path }) => path)).toEqual(['/one', '/two']);
  });

  test('runs alone and ends on SIGTERM, with no timer of an open request left to hold it', async () => {
    const child = spawn(process.execPath, ['local/origin.ts'], { env: { ...process.env, PORT: '0' } });
    onTestFinished(() => void child.kill('SIGKILL'));
    const exited = once(child, 'exit');
    const [line] = await once(child.stdout, 'data');
    const url = /http:\S+/.exec(line.toString())?.[0];
    const delayed = fetch(`${url}/?delay=${NEVER_MS}`).catch((error: Error) => error);
    // Its first event shows that the stream is waiting for the second.
    const events = await fetch(`${url}/sse?interval=${NEVER_MS}`);
    await events.body?.getReader().read();
    child.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);
    expect(await delayed).toBeInstanceOf(Error);
  });
});
