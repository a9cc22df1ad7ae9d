// Every switch of the demo origin, and its paths with a body of their own.
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { patternBlocks } from '../../local/origin/content.ts';
import { eventually, MEGABYTE, NEVER_MS, sha256, useOrigin } from './origin-harness.ts';

const { send, open, call, latest, latestState } = useOrigin();

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

  test('gzip compresses any body and names the encoding', async () => {
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

  test('stall leaves the body of the request unread', async () => {
    const upload = Readable.from(patternBlocks(64 * MEGABYTE));
    const sent = send('/?stall=1', { method: 'PUT', body: upload }).on('error', () => {});
    await eventually(() => expect(latestState()).toBe('open'));
    let written = -1;
    await eventually(() => {
      const previous = written;
      written = sent.socket?.bytesWritten ?? 0;
      expect(written).toBe(previous);
    });
    expect(latest()?.bodyBytes).toBe(0);
    expect(sent.socket?.bytesWritten).toBeLessThan(32 * MEGABYTE);
    sent.destroy();
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
    ['stall=2', 'stall', 'must be 0 or 1'],
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

  test('/llm streams words, then the number of tokens, which is also the cost', async () => {
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
      'delay status location header cost bytes stream interval gzip early fail hang stall greet count prompt';
    for (const name of names.split(' ')) expect(help.text).toMatch(new RegExp(`\\b${name}=`));
  });

  test.each(['/sse?bytes=1', '/llm?stream=1'])(
    '%s is refused, as the path has its own body',
    async (path) => {
      expect((await call(path)).status).toBe(400);
    },
  );
});
