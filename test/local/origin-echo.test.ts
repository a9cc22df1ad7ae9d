// What the demo origin echoes of a request, over real sockets.
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { patternBlocks } from '../../local/origin/content.ts';
import { eventually, MEGABYTE, retainedBytes, sha256, useOrigin } from './origin-harness.ts';

const { send, call, latest, latestState } = useOrigin();

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

  test('answers OPTIONS with the methods that it allows, even for the path *', async () => {
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

  test('echoes a body of up to 64 KB, and only the hash of a larger one', async () => {
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
