// How the demo origin starts, counts and ends, also as a separate process.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import { startOrigin } from '../../local/origin.ts';
import { eventually, NEVER_MS, useOrigin } from './origin-harness.ts';

const { current, call } = useOrigin();

describe('the origin', () => {
  test('stops at once, and cuts requests that hang, stream or are upgraded', async () => {
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
    const { port } = current();
    await expect(startOrigin({ port })).rejects.toThrow(`port ${port} (origin) is taken`);
  });

  test('counts requests and keeps the latest', async () => {
    await call('/one');
    await call('/two');
    expect(current().requests.total).toBe(2);
    expect(current().requests.entries.map(({ path }) => path)).toEqual(['/one', '/two']);
  });

  test('runs as its own process and ends on SIGTERM, even with requests still open', async () => {
    const child = spawn(process.execPath, ['local/origin.ts'], { env: { ...process.env, PORT: '0' } });
    onTestFinished(() => void child.kill('SIGKILL'));
    const exited = once(child, 'exit');
    const [line] = await once(child.stdout, 'data');
    const url = /http:\S+/.exec(line.toString())?.[0];
    const delayed = fetch(`${url}/?delay=${NEVER_MS}`).catch((error: Error) => error);
    // Its first event shows that the stream waits for the second.
    const events = await fetch(`${url}/sse?interval=${NEVER_MS}`);
    await events.body?.getReader().read();
    child.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);
    expect(await delayed).toBeInstanceOf(Error);
  });
});
