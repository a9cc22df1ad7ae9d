// `concurrency` rules: an open connection holds a seat until either side ends it, or until the seat expires.
import { once } from 'node:events';
import { request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { type Origin, startOrigin } from '../../local/origin.ts';
import { LOOPBACK } from '../../local/ports.ts';
import { createRandom } from '../../local/random.ts';
import type { Weir } from '../../local/weir.ts';
import { isLong } from '../rounds.ts';
import { startWeir } from '../shared/weir.ts';

/** Isolates ignore an answer of Redis that comes later. */
const DEADLINE_MS = 4_000;
/** How many WebSockets are open at the same time. The test opens them in steps of 50. */
const MANY = isLong ? 1_000 : 300;

let weir: Weir;
let origin: Origin;
/** Another origin, which notes how its connections end. */
let closing: WebSocketServer;
beforeAll(async () => {
  origin = await startOrigin({ port: 0 });
  closing = new WebSocketServer({ host: LOOPBACK, port: 0 });
  await once(closing, 'listening');
  weir = await startWeir({ ORIGIN_URL: origin.url, DEADLINE_MS: String(DEADLINE_MS) }, { isolates: ['one'] });
  const rule = { scope: 'ip', algorithm: 'concurrency' };
  const few = { ...rule, resource: '/few', limit: 3, windowSeconds: 30 };
  const many = { ...rule, resource: '/many', limit: MANY, windowSeconds: 60 };
  const closes = { ...rule, resource: '/closes', limit: 3, windowSeconds: 30 };
  const { port } = closing.address() as AddressInfo;
  const route = { name: 'closing', resource: '/closes/*', origin: `http://${LOOPBACK}:${port}` };
  await weir.admin('/routes', { method: 'POST', body: route });
  for (const body of [few, many, closes]) await weir.admin('/rules', { method: 'POST', body });
  await new Promise((resolve) => setTimeout(resolve, 600));
});
afterAll(async () => {
  await weir?.[Symbol.asyncDispose]();
  await origin.stop();
  closing.close();
});

/** Less than the time after which a forgotten seat expires. */
const BEFORE_EXPIRY = { timeout: 20_000, interval: 50 };

const openAtOrigin = () => origin.requests.open;

const explain = async (path: string, ip: string) => {
  const { applies } = await weir.admin<{ applies: { left: { remaining: number; resetAt: string } }[] }>(
    '/explain',
    { method: 'POST', body: { path, ip } },
  );
  return applies[0]?.left;
};
const left = async (path: string, ip: string) => (await explain(path, ip))?.remaining;

/** Opens a WebSocket through Weir. Resolves to it, or to the status of the refusal. */
function open(path: string, ip: string): Promise<WebSocket | number> {
  const url = `${weir.isolates.urls['one']?.replace('http', 'ws')}${path}`;
  const socket = new WebSocket(url, {
    headers: { 'CF-Connecting-IP': ip, 'X-Weir-Region': 'us' },
  });
  return new Promise((resolve, reject) => {
    socket.once('open', () => resolve(socket));
    socket.once('unexpected-response', (_, response) => resolve(response.statusCode ?? 0));
    socket.once('error', reject);
  });
}

async function opened(path: string, ip: string): Promise<WebSocket> {
  const socket = await open(path, ip);
  if (typeof socket === 'number') throw new Error(`refused with ${socket}`);
  return socket;
}

describe('WebSockets', () => {
  it('pass messages both ways, and no more may be open than the rule allows', async () => {
    const ip = '192.0.2.1';
    const sockets = await Promise.all([1, 2, 3].map(() => opened('/few', ip)));
    expect(await open('/few', ip)).toBe(429);
    const [first] = sockets;
    const echoed = new Promise((resolve) => first?.once('message', (data) => resolve(String(data))));
    first?.send('hello');
    expect(await echoed).toBe('hello');
    first?.close();
    await expect.poll(() => left('/few', ip), BEFORE_EXPIRY).toBe(1);
    sockets.push(await opened('/few', ip));
    for (const socket of sockets) socket.close();
    await expect.poll(() => left('/few', ip), BEFORE_EXPIRY).toBe(3);
  });

  it('carry bytes as bytes', async () => {
    const socket = await opened('/few', '192.0.2.8');
    const echoed = new Promise<[Buffer, boolean]>((resolve) =>
      socket.once('message', (data, isBinary) => resolve([data as Buffer, isBinary])),
    );
    socket.send(Buffer.from([1, 2, 3, 255]));
    expect(await echoed).toEqual([Buffer.from([1, 2, 3, 255]), true]);
    socket.close();
  });

  it('are closed at the origin, too, even if the client sends a close code that cannot be passed on', async () => {
    const ip = '192.0.2.9';
    const socket = await opened('/few', ip);
    // A close frame with a code that nobody may pass on, masked with zeros.
    const raw = (socket as unknown as { _socket: { write(bytes: Buffer): void } })._socket;
    raw.write(Buffer.from([0x88, 0x82, 0, 0, 0, 0, 1004 >> 8, 1004 & 255]));
    await expect.poll(() => left('/few', ip), BEFORE_EXPIRY).toBe(3);
    await expect.poll(openAtOrigin).toBe(0);
    socket.terminate();
  });

  it.each([
    ['with a seat', '/closes', 2],
    ['without a rule', '/closes/free', undefined],
  ])('pass the close code and reason of the client on to the origin, %s', async (_, path, seatsLeft) => {
    const ip = '192.0.2.10';
    const ended = new Promise((resolve) => {
      closing.once('connection', (accepted) =>
        accepted.once('close', (code, reason) => resolve([code, reason.toString()])),
      );
    });
    const socket = await opened(path, ip);
    expect(await left(path, ip)).toBe(seatsLeft);
    socket.close(4002, 'done');
    expect(await ended).toEqual([4002, 'done']);
    if (seatsLeft !== undefined) await expect.poll(() => left(path, ip), BEFORE_EXPIRY).toBe(3);
  });

  it('release their seat when the origin closes, and pass on its code', async () => {
    const ip = '192.0.2.2';
    const socket = await opened('/few', ip);
    const closed = new Promise((resolve) => socket.once('close', (code) => resolve(code)));
    socket.send('close:4001');
    expect(await closed).toBe(4001);
    await expect.poll(() => left('/few', ip), BEFORE_EXPIRY).toBe(3);
  });

  it(`leave no seat taken when ${MANY} of them are closed or killed in random order`, async () => {
    const ip = '192.0.2.4';
    const random = createRandom(5);
    const sockets: WebSocket[] = [];
    for (let i = 0; i < MANY / 50; i += 1)
      sockets.push(...(await Promise.all(Array.from({ length: 50 }, () => opened('/many', ip)))));
    expect(await left('/many', ip)).toBe(0);
    expect(await open('/many', ip)).toBe(429);
    for (const socket of sockets.map((value) => ({ value, at: random() })).sort((a, b) => a.at - b.at)) {
      if (random() < 0.3) socket.value.terminate();
      else socket.value.close();
    }
    await expect.poll(() => left('/many', ip), { interval: 200 }).toBe(MANY);
  });
});

describe('answers', () => {
  it('hold their seat until their last byte', async () => {
    const ip = '192.0.2.5';
    const answer = await weir.call('/few?stream=5&interval=100', { ip });
    expect(await left('/few', ip)).toBe(2);
    await answer.text();
    await expect.poll(() => left('/few', ip), BEFORE_EXPIRY).toBe(3);
  });

  it('release their seat even if Redis has answered after the deadline', async () => {
    const ip = '192.0.2.11';
    // One region counts the connections of a subject. Slows all regions, because the test does not know which.
    const slow = (region: string, during: () => Promise<void>) =>
      weir.withFault(region, { latencyMs: 1.25 * DEADLINE_MS }, during);
    await slow('us', () =>
      slow('eu', () =>
        slow('ap', async () => {
          const answer = await weir.call('/few', { ip });
          expect([answer.status, answer.headers.get('X-Weir-Degraded')]).toEqual([200, 'timeout']);
          await answer.text();
        }),
      ),
    );
    await expect.poll(() => left('/few', ip), BEFORE_EXPIRY).toBe(3);
  });

  it('release their seat when the client leaves', async () => {
    const ip = '192.0.2.6';
    const answer = await weir.call('/few?stream=1000&interval=100', { ip });
    await answer.body?.cancel();
    await expect.poll(() => left('/few', ip), BEFORE_EXPIRY).toBe(3);
  });

  it('release their seat when the client leaves before the origin has answered', async () => {
    const ip = '192.0.2.12';
    const asked = request(`${weir.isolates.urls['one']}/few?hang=1`, { headers: { 'CF-Connecting-IP': ip } });
    asked.on('error', () => {});
    asked.end();
    await expect.poll(() => left('/few', ip), BEFORE_EXPIRY).toBe(2);
    // workerd notices a reset connection, not a half-closed one.
    asked.socket?.resetAndDestroy();
    await expect.poll(() => left('/few', ip), BEFORE_EXPIRY).toBe(3);
  });

  it('without a body release their seat at once', async () => {
    const ip = '192.0.2.7';
    await weir.call('/few?status=204', { ip });
    await expect.poll(() => left('/few', ip), BEFORE_EXPIRY).toBe(3);
  });
});

/** Seats are renewed every third of their window. */
const UNTIL_RENEWED = { interval: 250 };

describe.concurrent('a seat', () => {
  it('is renewed while a WebSocket is open, and while a request waits for the origin', async ({ expect }) => {
    const [socketIp, waitingIp] = ['192.0.2.20', '192.0.2.21'];
    const socket = await opened('/few', socketIp);
    const waiting = weir.call('/few?delay=25000', { ip: waitingIp }).catch(() => undefined);
    const isRenewed = async (ip: string) => {
      await expect.poll(() => left('/few', ip)).toBe(2);
      const takenUntil = (await explain('/few', ip))?.resetAt ?? '';
      await expect.poll(async () => (await explain('/few', ip))?.resetAt, UNTIL_RENEWED).not.toBe(takenUntil);
      expect(await left('/few', ip)).toBe(2);
    };
    await Promise.all([socketIp, waitingIp].map(isRenewed));
    socket.close();
    void waiting;
  });

  it('that another connection has taken is lost, and its old connection is closed', async ({ expect }) => {
    const ip = '192.0.2.22';
    const socket = await opened('/few', ip);
    const closed = new Promise((resolve) => socket.once('close', (code) => resolve(code)));
    const answer = await weir.call('/few?stream=1000&interval=100', { ip });
    await weir.admin('/counters/reset', { method: 'POST', body: { scope: 'ip', subject: ip } });
    const others = await Promise.all([1, 2, 3].map(() => opened('/few', ip)));
    expect(await closed).toBe(1013);
    // The stream would last for more than a minute.
    expect((await answer.text()).split('\n').length).toBeLessThan(500);
    expect(others.map(({ readyState }) => readyState)).toEqual([1, 1, 1]);
    for (const other of others) other.close();
    await expect.poll(() => left('/few', ip), BEFORE_EXPIRY).toBe(3);
  });
});
