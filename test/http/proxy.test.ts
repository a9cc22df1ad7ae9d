// An origin that does not answer. test/isolates/fidelity.test.ts compares its answers byte for byte, in the real
// runtime.
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { readClientRequest } from '../../src/http/guard.ts';
import { OriginDeadline, type ProxyResult, proxy } from '../../src/proxy/proxy.ts';
import { eventually, useOrigin } from '../local/origin-harness.ts';
import { SILENT_LOG } from '../telemetry/silent.ts';

const { current, latestState } = useOrigin();

const ask = (query: string, { timeoutMs = 10_000, originUrl = current().url, signal }: Asked = {}) =>
  proxy(readClientRequest(new Request('https://api.example.com/x', signal ? { signal } : {})), {
    url: `${originUrl}/x${query}`,
    via: 'network',
    hop: '0123456789abcdef',
    policy: { overrides: 'drop', hidesAccess: false },
    timeoutMs,
    health: { note: () => {} },
    log: SILENT_LOG,
  });

interface Asked {
  readonly timeoutMs?: number;
  readonly originUrl?: string;
  readonly signal?: AbortSignal;
}

async function failure(result: ProxyResult) {
  const { code } = (await result.response.json()) as { code: string };
  const type = result.response.headers.get('Content-Type');
  return [result.kind === 'failed' && result.reason, result.response.status, code, type];
}

describe('proxy', () => {
  test('passes the answer of the origin on, even a redirect', async () => {
    const result = await ask('?status=302&location=/elsewhere');
    expect([result.kind, result.response.status, result.response.headers.get('Location')]).toEqual([
      'answered',
      302,
      '/elsewhere',
    ]);
  });

  test('answers 502 if the origin cannot be reached or cuts the connection', async () => {
    const unreachable = ['unreachable', 502, 'origin-unreachable', 'application/problem+json'];
    expect(await failure(await ask('', { originUrl: 'http://127.0.0.1:1' }))).toEqual(unreachable);
    expect(await failure(await ask('?fail=reset'))).toEqual(unreachable);
  });

  // The runtime ends the request to the origin: see isolates/fidelity.
  test('answers 504 if the origin is slow', async () => {
    const result = await failure(await ask('?hang=1', { timeoutMs: 2_000 }));
    expect(result).toEqual(['timeout', 504, 'origin-timeout', 'application/problem+json']);
  });

  test('lets an answer take any time once its headers have come', async () => {
    const { response } = await ask('?stream=3&interval=1500', { timeoutMs: 2_000 });
    expect(await response.text()).toBe('line 1\nline 2\nline 3\n');
  });

  test('ends the request to the origin when the client leaves', async () => {
    const client = new AbortController();
    const asked = ask('?hang=1', { signal: client.signal });
    await eventually(() => expect(latestState()).toBe('open'));
    client.abort();
    expect((await failure(await asked)).slice(0, 2)).toEqual(['client-gone', 499]);
    await eventually(() => expect(latestState()).toBe('aborted'));
    expect((await failure(await ask('', { signal: AbortSignal.abort() })))[0]).toBe('client-gone');
  });
});

describe('the deadline', () => {
  const useClock = () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
  };

  test('does not run before it is started, nor after it was stopped', () => {
    useClock();
    const deadline = new OriginDeadline(new AbortController().signal, { timeoutMs: 100 });
    vi.advanceTimersByTime(1_000);
    deadline.start();
    vi.advanceTimersByTime(99);
    deadline.stop();
    vi.advanceTimersByTime(1_000);
    deadline.start();
    vi.advanceTimersByTime(1_000);
    expect([deadline.signal.aborted, deadline.reason()]).toEqual([false, undefined]);
  });

  test('ends after its time, and keeps that reason', async () => {
    useClock();
    const client = new AbortController();
    const deadline = new OriginDeadline(client.signal, { timeoutMs: 100 });
    const raced = deadline.race(new Promise(() => {}));
    deadline.start();
    vi.advanceTimersByTime(100);
    client.abort();
    await expect(raced).rejects.toThrow('the origin is late');
    expect(deadline.reason()).toBe('timeout');
  });

  test('ends when the client leaves, or later if it may outlive the client, and only once', () => {
    useClock();
    const leaving = (outlivesClientMs: number) => {
      const client = new AbortController();
      const deadline = new OriginDeadline(client.signal, { timeoutMs: 1_000, outlivesClientMs });
      deadline.start();
      client.abort();
      return deadline;
    };
    expect(leaving(0).reason()).toBe('client-gone');
    const late = leaving(100);
    vi.advanceTimersByTime(99);
    expect(late.signal.aborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect([late.signal.aborted, late.reason()]).toEqual([true, 'client-gone']);
    const tooLate = leaving(5_000);
    vi.advanceTimersByTime(1_000);
    expect([tooLate.signal.aborted, tooLate.reason()]).toEqual([true, 'timeout']);
    // Once the origin has answered, nobody reads the rest.
    const answered = leaving(100);
    answered.stop();
    expect(answered.reason()).toBe('client-gone');
  });
});
