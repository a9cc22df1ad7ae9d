// A load that does not wait for answers, and the connections that it uses.
import { createServer } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openConnectionPool } from '../../local/connection-pool.ts';
import { close, freePort, listen } from '../../local/ports.ts';
import { MAX_IN_FLIGHT, steadyLoad } from '../../local/steady-load.ts';

describe('steady load', () => {
  test('sends as many requests as fit the time, each at its moment, and returns the results in order', async () => {
    const results = await steadyLoad({ perSecond: 200, ms: 100, send: async (i) => i });
    expect(results.map(({ value }) => value)).toEqual(Array.from({ length: 20 }, (_, i) => i));
    for (const [i, { sentAtMs }] of results.entries()) expect(sentAtMs).toBeGreaterThanOrEqual(i * 5);
  });

  test('does not wait for an answer before it sends the next request', async () => {
    const { promise: allSent, resolve } = Promise.withResolvers<void>();
    const results = await steadyLoad({
      perSecond: 1_000,
      ms: 30,
      send: async (i) => {
        if (i === 29) resolve();
        await allSent;
      },
    });
    expect(results.length).toBe(30);
    const [first, last] = [results[0], results[29]];
    expect(first?.tookMs).toBeGreaterThanOrEqual((last?.sentAtMs ?? 0) - (first?.sentAtMs ?? 0));
  });

  test('returns a failed request as a result with its error', async () => {
    const refused = new Error('refused');
    const send = async (i: number) => {
      if (i === 1) throw refused;
      return i;
    };
    const results = await steadyLoad({ perSecond: 1_000, ms: 3, send });
    expect(results.map(({ value, error }) => value ?? error)).toEqual([0, refused, 2]);
  });

  test('sends nothing more once it is aborted, and still returns the results so far', async () => {
    const stop = new AbortController();
    const send = async (i: number) => {
      if (i === 4) stop.abort();
      return i;
    };
    const results = await steadyLoad({ perSecond: 100, ms: 600_000, send, signal: stop.signal });
    expect(results.map(({ value }) => value)).toEqual([0, 1, 2, 3, 4]);
  });

  test('gives up when more requests than the maximum wait for their answers', async () => {
    let sent = 0;
    const send = () => {
      sent += 1;
      return new Promise(() => {});
    };
    const load = steadyLoad({ perSecond: 1_000_000, ms: 1_000, send });
    await expect(load).rejects.toThrow('2000 requests wait for their answers');
    expect(sent).toBe(MAX_IN_FLIGHT);
  });
});

describe('the connections of a load', () => {
  let connections = 0;
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    if (request.url === '/cut') {
      response.writeHead(200, { 'Content-Length': 10 });
      response.write('half', () => response.destroy());
      return;
    }
    response.writeHead(201, { 'X-Method': request.method ?? '' }).end(`${request.headers['x-said']} ${body}`);
  });
  server.on('connection', () => {
    connections += 1;
  });
  let url: string;
  beforeAll(async () => {
    url = `http://127.0.0.1:${await listen(server, 0, 'test')}`;
  });
  afterAll(() => close(server));

  test('are used again', async () => {
    using pool = openConnectionPool();
    connections = 0;
    const request = { method: 'POST', headers: { 'X-Said': 'hello' }, body: 'world' };
    for (let i = 0; i < 5; i += 1) {
      const { status, headers, body } = await pool.request(url, request);
      expect([status, headers['x-method'], body]).toEqual([201, 'POST', 'hello world']);
    }
    expect(connections).toBe(1);
  });

  test('fail their request if the server sends something that is not HTTP in the middle of an answer', async () => {
    const babbler = createTcpServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n');
        setTimeout(() => socket.write('no size of a chunk'), 20);
      });
    });
    const port = await listen(babbler, 0, 'babbler');
    using pool = openConnectionPool();
    await expect(pool.request(`http://127.0.0.1:${port}`)).rejects.toMatchObject({ code: 'ECONNRESET' });
    await close(babbler);
  });

  test('fail their request if they are refused, cut or aborted', async () => {
    using pool = openConnectionPool();
    const refused = pool.request(`http://127.0.0.1:${await freePort()}`);
    await expect(refused).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await expect(pool.request(`${url}/cut`)).rejects.toMatchObject({ code: 'ECONNRESET' });
    await expect(pool.request(url, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      name: 'AbortError',
    });
    expect((await pool.request(url)).status).toBe(201);
  });
});
