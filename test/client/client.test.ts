import { build } from 'esbuild';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { readingsOf, retryAfterMs } from '../../src/client/fields.ts';
import { createFetch } from '../../src/client.ts';
import { createLimitedServer } from './server.ts';

const START_MS = 1_700_000_000_000;
beforeEach(() => void vi.useFakeTimers({ now: START_MS }));
afterEach(() => void vi.useRealTimers());

const headersOf = (remaining: number, seconds: number) => ({
  'RateLimit-Policy': '"all";q=100;w=10',
  RateLimit: `"all";r=${remaining};t=${seconds}`,
});

/** Gives these answers in order, and then plain 200s. Notes when each request came. */
function createScript(...answers: (() => Response)[]) {
  const sentAtMs: number[] = [];
  const bodies: string[] = [];
  const fetch = async (request: Request) => {
    sentAtMs.push(Date.now() - START_MS);
    bodies.push(await request.text());
    return (answers.shift() ?? (() => new Response('ok')))();
  };
  return { fetch, sentAtMs, bodies, random: () => 0.5 };
}

const denial = (seconds: string) => () =>
  new Response('no', { status: 429, headers: { 'Retry-After': seconds } });

describe('the client', () => {
  it('waits for Retry-After and a little more, then sends the same body again', async () => {
    const script = createScript(denial('3'));
    const answer = createFetch(script)('https://api.test/', { method: 'POST', body: 'once' });
    await vi.runAllTimersAsync();
    expect((await answer).status).toBe(200);
    expect(script.sentAtMs).toEqual([0, 3_150]);
    expect(script.bodies).toEqual(['once', 'once']);
  });

  it('holds back its other requests to the same origin, and none to another one', async () => {
    const script = createScript(denial('3'));
    const fetch = createFetch(script);
    const first = fetch('https://api.test/');
    await vi.advanceTimersByTimeAsync(10);
    const others = [fetch('https://api.test/other'), fetch('https://elsewhere.test/')];
    await vi.advanceTimersByTimeAsync(1_000);
    expect(script.sentAtMs).toEqual([0, 10]);
    await vi.runAllTimersAsync();
    await Promise.all([first, ...others]);
    expect(script.sentAtMs.slice(2).every((ms) => ms >= 3_000)).toBe(true);
  });

  it('returns a denial once it has tried often enough', async () => {
    const script = createScript(denial('1'), denial('1'), denial('1'));
    const answer = createFetch({ ...script, retries: 2 })('https://api.test/');
    await vi.runAllTimersAsync();
    expect([(await answer).status, script.sentAtMs.length]).toEqual([429, 3]);
  });

  it('returns a 503 at once if it has no Retry-After', async () => {
    const script = createScript(() => new Response('', { status: 503 }));
    expect((await createFetch(script)('https://api.test/')).status).toBe(503);
    expect(script.sentAtMs).toEqual([0]);
  });

  it('sends at once what a limit has left, and the rest in the next window', async () => {
    const script = createScript(() => new Response('ok', { headers: headersOf(20, 10) }));
    const fetch = createFetch(script);
    await fetch('https://api.test/');
    const rest = Array.from({ length: 22 }, () => fetch('https://api.test/'));
    await vi.runAllTimersAsync();
    await Promise.all(rest);
    expect(script.sentAtMs.slice(0, 21)).toEqual(Array(21).fill(0));
    expect(script.sentAtMs.slice(21).every((ms) => ms >= 10_000)).toBe(true);
  });

  it('counts its requests that are still under way', async () => {
    const limit = { algorithm: 'fixed-window', limit: 100, windowMs: 3_600_000 } as const;
    const server = createLimitedServer(limit, () => new Promise((resolve) => setTimeout(resolve, 5)));
    const fetch = createFetch({ fetch: server.fetch });
    // Ten at a time, each slot sends its next request as soon as it has an answer.
    const slot = async () => {
      for (;;) await fetch('https://api.test/');
    };
    for (let i = 0; i < 10; i += 1) void slot();
    await vi.advanceTimersByTimeAsync(3_000);
    expect([server.admitted, server.denied]).toEqual([100, 0]);
  });

  it('waits longer than a timer can count without waking up all the time', async () => {
    const script = createScript(denial(String(60 * 86_400)));
    const waits: number[] = [];
    const sleep = async (ms: number) => {
      waits.push(ms);
      vi.setSystemTime(Date.now() + ms);
    };
    expect((await createFetch({ ...script, sleep })('https://api.test/')).status).toBe(200);
    expect(waits.every((ms) => ms < 2 ** 31)).toBe(true);
    expect(waits).toHaveLength(3);
  });

  it('spaces requests over the rest of the window if it is told to', async () => {
    const script = createScript(() => new Response('ok', { headers: headersOf(20, 10) }));
    const fetch = createFetch({ ...script, spread: true });
    await fetch('https://api.test/');
    const rest = Array.from({ length: 5 }, () => fetch('https://api.test/'));
    await vi.runAllTimersAsync();
    await Promise.all(rest);
    const gaps = script.sentAtMs.slice(2).map((ms, i) => ms - (script.sentAtMs[i + 1] ?? 0));
    expect(Math.min(...gaps)).toBeGreaterThan(400);
    expect(Math.max(...gaps)).toBeLessThan(700);
  });

  it('waits for the next window when nothing is left', async () => {
    const script = createScript(() => new Response('ok', { headers: headersOf(0, 4) }));
    const fetch = createFetch(script);
    await fetch('https://api.test/');
    const next = fetch('https://api.test/');
    await vi.runAllTimersAsync();
    await next;
    expect(script.sentAtMs[1]).toBeGreaterThanOrEqual(4_000);
    expect(script.sentAtMs[1]).toBeLessThan(4_200);
  });

  it('sends one request ahead before it knows of any limit', async () => {
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    let sent = 0;
    const fetch = createFetch({
      fetch: async () => {
        sent += 1;
        await released;
        return new Response('ok');
      },
    });
    const answers = Array.from({ length: 5 }, () => fetch('https://api.test/'));
    await vi.advanceTimersByTimeAsync(100);
    expect(sent).toBe(1);
    release();
    await vi.runAllTimersAsync();
    await Promise.all(answers);
    expect(sent).toBe(5);
  });

  it('stops waiting when its caller gives up', async () => {
    const script = createScript(denial('60'));
    const controller = new AbortController();
    const answer = createFetch(script)('https://api.test/', { signal: controller.signal });
    const failed = expect(answer).rejects.toThrow('enough');
    await vi.advanceTimersByTimeAsync(10);
    controller.abort(new Error('enough'));
    await vi.advanceTimersByTimeAsync(10);
    await failed;
    expect(vi.getTimerCount()).toBe(0);
    expect(script.sentAtMs).toEqual([0]);
  });

  it('has at most 3 KB', async () => {
    vi.useRealTimers();
    const entryPoints = [new URL('../../src/client.ts', import.meta.url).pathname];
    const { outputFiles } = await build({
      entryPoints,
      bundle: true,
      minify: true,
      format: 'esm',
      write: false,
    });
    expect(outputFiles[0]?.contents.length).toBeLessThanOrEqual(3_072);
  });
});

describe('the fields of a response', () => {
  it('are read by policy, without policies that have no window', () => {
    const headers = new Headers({
      'RateLimit-Policy':
        '"burst";q=100;w=60, "open";q=5;qu="concurrent-requests", "daily";q=1000;w=86400;pk=:AA==:',
      RateLimit: '"daily";r=999;t=80000, "burst";r=50;t=30, "open";r=4;t=0',
    });
    expect(readingsOf(headers)).toEqual([
      { name: 'daily', quota: 1_000, windowMs: 86_400_000, remaining: 999, resetSeconds: 80_000 },
      { name: 'burst', quota: 100, windowMs: 60_000, remaining: 50, resetSeconds: 30 },
    ]);
  });

  it('are read in one pass, even if no quote ends', () => {
    const endless = `"${'\\"'.repeat(500_000)}`;
    expect(readingsOf(new Headers({ 'RateLimit-Policy': endless, RateLimit: endless }))).toEqual([]);
  });

  it('say when to come back, in seconds or as a date', () => {
    const read = (value: string) => retryAfterMs(new Headers({ 'Retry-After': value }), START_MS);
    expect(read('7')).toBe(7_000);
    expect(read(new Date(START_MS + 5_000).toUTCString())).toBe(5_000);
    expect([read('soon'), retryAfterMs(new Headers(), START_MS)]).toEqual([undefined, undefined]);
  });
});
