// Weir distinguishes a request that may make no more calls in this runtime from a Redis that does not answer.
import { afterEach, expect, it, vi } from 'vitest';
import { CounterStoreError, OutOfCalls } from '../../src/core/ports/region.ts';
import { createClient } from '../../src/redis/client.ts';

afterEach(() => void vi.unstubAllGlobals());

const failureOf = async (message: string) => {
  vi.stubGlobal('fetch', () => Promise.reject(new Error(message)));
  const client = createClient({ url: 'http://127.0.0.1:1', token: 'token' });
  return client.send(AbortSignal.timeout(1_000), (redis) => redis.ping()).catch((error: unknown) => error);
};

it.each([
  'Too many subrequests.',
  'Too many subrequests by single Worker invocation. To configure this limit, refer to the documentation',
])('a request is out of calls if the runtime says: %s', async (message) =>
  expect(await failureOf(message)).toBeInstanceOf(OutOfCalls),
);

it('any other failure counts as a failure of Redis', async () => {
  const failure = await failureOf('Network connection lost.');
  expect(failure).toBeInstanceOf(CounterStoreError);
  expect(failure).not.toBeInstanceOf(OutOfCalls);
});
