// KV that fails on demand, as a Worker with that binding sees it.
import { convertV4MiniflareOptions, Miniflare } from 'miniflare';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createKvFaultSwitch, type KvFaultSwitch } from '../../local/kv-faults/faults.ts';
import { KV_WORKER, kvBinding, kvControlUrl, kvWorker } from '../../local/kv-faults/miniflare.ts';
import { isPending } from './upstash-gateway-harness.ts';

/** Does what the query says: ?call=get&args=["key"]. */
const PROBE = `export default {
  async fetch(request, { RULES }) {
    const { call, args } = Object.fromEntries(new URL(request.url).searchParams);
    try {
      return Response.json({ value: (await RULES[call](...JSON.parse(args))) ?? null });
    } catch (error) {
      return Response.json({ error: error.message });
    }
  }
}`;
const compatibility = { compatibilityDate: '2026-01-01' };
const KEY = 'a key/with ?strange#% characters: ü';

let miniflare: Miniflare;
let faults: KvFaultSwitch;
let kv: Awaited<ReturnType<Miniflare['getKVNamespace']>>;
beforeAll(async () => {
  const probe = {
    name: 'probe',
    modules: [{ type: 'ESModule' as const, path: 'probe.js', contents: PROBE }],
    ...compatibility,
    unsafeBindings: [kvBinding('RULES')],
  };
  const workers = [probe, await kvWorker(compatibility)];
  miniflare = new Miniflare(convertV4MiniflareOptions({ workers }));
  faults = createKvFaultSwitch(await kvControlUrl(miniflare));
  kv = await miniflare.getKVNamespace('RULES', KV_WORKER);
});
afterAll(() => miniflare?.dispose());
afterEach(() => faults.clear());

/** The result of a Worker's call to KV, or the message that it throws. */
async function inWorker(call: string, ...args: unknown[]): Promise<unknown> {
  const query = new URLSearchParams({ call, args: JSON.stringify(args) });
  const answer = await miniflare.dispatchFetch(`http://probe/?${query}`);
  return answer.json();
}

describe('KV without faults', () => {
  test('works like Miniflare’s KV', async () => {
    await inWorker('put', KEY, 'a value', { expirationTtl: 3_600, metadata: { by: 'probe' } });
    expect(await inWorker('get', KEY)).toEqual({ value: 'a value' });
    expect(await kv.get(KEY)).toBe('a value');
    const { value } = (await inWorker('list', { prefix: 'a key' })) as { value: { keys: unknown[] } };
    expect(value.keys).toEqual([
      { name: KEY, metadata: { by: 'probe' }, expiration: expect.any(Number) as number },
    ]);
    await inWorker('delete', KEY);
    expect(await inWorker('get', KEY)).toEqual({ value: null });
    await kv.put(KEY, '{"from":"outside"}');
    expect(await inWorker('get', KEY, 'json')).toEqual({ value: { from: 'outside' } });
  });
});

describe('KV with a fault', () => {
  beforeAll(() => kv.put('known', 'value'));
  afterEach(async () => {
    await faults.clear();
    expect(await inWorker('get', 'known')).toEqual({ value: 'value' });
  });

  test('throws at reads, and keeps writes', async () => {
    await faults.set({ read: 'throw' });
    expect(await inWorker('get', 'known')).toEqual({ error: 'KV GET failed: 500 Internal Server Error' });
    expect(await inWorker('put', 'written', 'meanwhile')).toEqual({ value: null });
    expect(await kv.get('written')).toBe('meanwhile');
  });

  test('never answers a read that hangs, even after the fault is over', async () => {
    await faults.set({ read: 'hang' });
    const hanging = inWorker('get', 'known');
    hanging.catch(() => {});
    expect(await isPending(hanging, 200)).toBe(true);
    await faults.clear();
    expect(await inWorker('get', 'known')).toEqual({ value: 'value' });
    expect(await isPending(hanging, 50)).toBe(true);
  });

  test('finds nothing', async () => {
    await faults.set({ read: 'null' });
    expect(await inWorker('get', 'known')).toEqual({ value: null });
  });

  test('returns garbage', async () => {
    await faults.set({ read: 'garbage' });
    expect(await inWorker('get', 'known')).toEqual({ value: '<html>not what you asked for</html>' });
  });

  test('throws at writes: it writes and deletes nothing, and reads stay right', async () => {
    await faults.set({ write: 'throw' });
    expect(await inWorker('put', 'known', 'other')).toEqual({
      error: 'KV PUT failed: 500 Internal Server Error',
    });
    expect(await inWorker('delete', 'known')).toEqual({
      error: 'KV DELETE failed: 500 Internal Server Error',
    });
    expect(await inWorker('get', 'known')).toEqual({ value: 'value' });
  });

  test('has only the fault set last, and shows it only through the Worker', async () => {
    await faults.set({ read: 'null' });
    expect(await kv.get('known')).toBe('value');
    await faults.set({ write: 'throw' });
    expect(await inWorker('get', 'known')).toEqual({ value: 'value' });
  });
});
