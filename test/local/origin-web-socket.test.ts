// WebSocket at the demo origin.
import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { eventually, useOrigin } from './origin-harness.ts';

const { current, latest, latestState } = useOrigin();

describe('WebSocket', () => {
  const connect = (path: string, protocols: string[] = []) =>
    new WebSocket(`ws://127.0.0.1:${current().port}${path}`, protocols, { headers: { 'X-Seen': 'yes' } });

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
    expect(current().requests.open).toBe(0);
  });
});
