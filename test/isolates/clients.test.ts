// Real clients that respect Retry-After wait, and succeed at their first retry.
import got from 'got';
import ky from 'ky';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { freshIp, type Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';

let weir: Weir;
beforeAll(async () => {
  weir = await startWeir({}, { isolates: ['one'] });
  const rule = { scope: 'ip', limit: 2, windowSeconds: 2 };
  for (const algorithm of ['fixed-window', 'sliding-window-log', 'token-bucket', 'gcra'])
    await weir.admin('/rules', { method: 'POST', body: { ...rule, algorithm, resource: `/${algorithm}` } });
  await new Promise((resolve) => setTimeout(resolve, 600));
});
afterAll(() => weir?.[Symbol.asyncDispose]());

/** Uses up the limit, then sends one more request with the client. Returns its last status and number of retries. */
async function askOnceMore(
  algorithm: string,
  send: (url: string, headers: Record<string, string>, onRetry: () => void) => Promise<number>,
) {
  const ip = freshIp();
  const headers = { 'CF-Connecting-IP': ip, 'X-Weir-Region': 'us' };
  const url = `${weir.isolates.urls['one']}/${algorithm}`;
  let retries = 0;
  let status = 0;
  // Repeats until the client is denied: on a busy machine the limit may have room again before the client asks.
  while (retries === 0) {
    while ((await fetch(url, { headers })).status === 200);
    status = await send(url, headers, () => {
      retries += 1;
    });
  }
  return { status, retries };
}

describe.concurrent.each(['fixed-window', 'sliding-window-log', 'token-bucket', 'gcra'])(
  'a client under %s',
  (algorithm) => {
    it('ky succeeds at its first retry', async ({ expect }) => {
      const outcome = await askOnceMore(algorithm, async (url, headers, onRetry) => {
        const answer = await ky.get(url, { headers, retry: 3, hooks: { beforeRetry: [() => onRetry()] } });
        return answer.status;
      });
      expect(outcome).toEqual({ status: 200, retries: 1 });
    });

    it('got succeeds at its first retry', async ({ expect }) => {
      const outcome = await askOnceMore(algorithm, async (url, headers, onRetry) => {
        const answer = await got(url, {
          headers,
          retry: { limit: 3, statusCodes: [429] },
          hooks: { beforeRetry: [() => onRetry()] },
        });
        return answer.statusCode;
      });
      expect(outcome).toEqual({ status: 200, retries: 1 });
    });
  },
);
