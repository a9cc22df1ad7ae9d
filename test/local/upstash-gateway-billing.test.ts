// The bill must be exact: 1 for each command, 1 plus the inner commands for a script.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FLAG, type Harness, startHarness } from './upstash-gateway-harness.ts';

let harness: Harness;
beforeAll(async () => {
  harness = await startHarness();
});
afterAll(() => harness.stop());

const CHARGE = `redis.call('TIME')
  redis.call('HMGET', KEYS[1], 'a', 'b')
  redis.call('HSET', KEYS[1], 'a', 1)
  return 1`;

test.each<[number, string, () => Promise<unknown>]>([
  [0, 'nothing at all', async () => {}],
  [0, 'reading the counters', () => harness.gateway.stats()],
  [1, 'a command', () => harness.send('SET', 'k', 1)],
  [1, 'a PING', () => harness.send('PING')],
  [1, 'a command that fails', () => harness.send('LPUSH', 'k', 1)],
  [0, 'a command Redis rejects', () => harness.send('GET')],
  [0, 'a command the gateway refuses', () => harness.send('MONITOR')],
  [0, 'a request without the token', () => harness.request('/ping', { headers: { authorization: 'x' } })],
  [1, 'an empty script', () => harness.send('EVAL', 'return 1', 0)],
  [4, 'a script with three commands', () => harness.send('EVAL', CHARGE, 1, 'h')],
  [4, 'the same with the flag', () => harness.send('EVAL', FLAG + CHARGE, 1, 'h')],
  [1, 'a key outside KEYS', () => harness.send('EVAL', `${FLAG}return redis.call('GET', 'x')`, 0)],
  [
    2,
    'keys that the check asks Redis for',
    () => harness.send('EVAL', `${FLAG}return redis.call('ECH'..'O', 'x')`, 0),
  ],
  [1, 'an EVALSHA that ends in NOSCRIPT', () => harness.send('EVALSHA', 'f'.repeat(40), 0)],
  [1, 'loading a script', () => harness.send('SCRIPT', 'LOAD', 'return 2')],
  [0, 'flushing scripts as a fault', () => harness.gateway.faults.flushScripts()],
])('the gateway bills %i for %s', async (billed, _what, run) => {
  expect(await harness.billed(run)).toBe(billed);
});

test('the gateway bills pipelines and transactions by their commands', async () => {
  const body = JSON.stringify([
    ['SET', 'n', 1],
    ['INCR', 'n'],
    ['EVAL', FLAG + CHARGE, 1, 'h'],
  ]);
  expect(await harness.billed(() => harness.request('/pipeline', { method: 'POST', body }))).toBe(6);
  expect(await harness.billed(() => harness.request('/multi-exec', { method: 'POST', body }))).toBe(6);
});

test('the gateway bills every script when many run at once', async () => {
  const run = () =>
    Promise.all(Array.from({ length: 100 }, () => harness.send('EVAL', FLAG + CHARGE, 1, 'h')));
  expect(await harness.billed(run)).toBe(400);
});

test('the gateway counts requests, and shows both counts over HTTP without a token', async () => {
  const before = await harness.gateway.stats();
  await harness.send('PING');
  await harness.request('/ping');
  const response = await fetch(`${harness.gateway.url}/_gateway/stats`);
  expect(await response.json()).toEqual({ billed: before.billed + 2, requests: before.requests + 2 });
});
