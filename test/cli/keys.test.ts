// `weir keys import` on the local stack: an old API's keys come behind Weir, and no customer changes anything.
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Weir } from '../../local/weir.ts';
import { isLong } from '../rounds.ts';
import { DELETE_ALL } from '../rules/database.ts';
import { startWeir } from '../shared/weir.ts';
import { runCli, variablesOf } from './run-cli.ts';

let weir: Weir;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'weir-keys-'));
  weir = await startWeir({ UNVERIFIED: 'reject' }, { isolates: ['one'] });
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await weir[Symbol.asyncDispose]();
});
beforeEach(() => weir.sql(DELETE_ALL));

/** More than two pieces of an import. */
const CUSTOMERS = isLong ? 100_000 : 4_500;

const hashOf = (key: string) => createHash('sha256').update(key).digest('hex');
const file = (name: string, ...lines: readonly string[]) => {
  const path = join(folder, name);
  writeFileSync(path, `${lines.join('\n')}\n`);
  return path;
};
const importFile = (path: string, ...options: readonly string[]) =>
  runCli(['keys', 'import', path, ...options], variablesOf(weir));
const imported = async (path: string, ...options: readonly string[]) => {
  const { code, out, error } = await importFile(path, '--json', ...options);
  expect({ code, error }).toEqual({ code: 0, error: '' });
  return JSON.parse(out) as Readonly<Record<string, unknown>>;
};
const stored = async (sha256: string) => {
  const { items } = await weir.admin<{ items: readonly Record<string, unknown>[] }>(`/keys?sha256=${sha256}`);
  return items[0];
};
const addTier = (name: string, limit: number) =>
  weir.admin('/tiers', { method: 'POST', body: { name, limits: { calls: limit } } });

test('customers of an old API are limited by their own tiers, and a revoked key is not known any more', async () => {
  await addTier('small', 2);
  await addTier('large', 3);
  const rule = { resource: '/hello', scope: 'apiKey', limitName: 'calls', windowSeconds: 3600 };
  await weir.admin('/rules', { method: 'POST', body: { ...rule, algorithm: 'fixed-window' } });
  const customers = Array.from({ length: CUSTOMERS }, (_, i) => ({
    key: `sk_live_old-${i}`,
    tier: i % 2 ? 'large' : 'small',
  }));
  const csv = file('old.csv', 'sha256,tier', ...customers.map(({ key, tier }) => `${hashOf(key)},${tier}`));
  expect(await imported(csv)).toMatchObject({ rows: CUSTOMERS, created: CUSTOMERS, unchanged: 0 });
  const statusOf = async (key: string) => {
    const answer = await weir.call('/hello', { headers: { 'X-API-Key': key } });
    await answer.body?.cancel();
    return answer.status;
  };
  const admitted = async (key: string) => {
    let count = 0;
    for (let i = 0; i < 5; i += 1) count += (await statusOf(key)) === 200 ? 1 : 0;
    return count;
  };
  expect(await statusOf('sk_live_made-up')).toBe(401);
  // In the first, the second and the last piece of the import.
  for (const i of [0, 2_001, CUSTOMERS - 1]) expect(await admitted(`sk_live_old-${i}`)).toBe(i % 2 ? 3 : 2);
  expect(await statusOf('sk_live_old-7')).toBe(200);
  const { id } = (await stored(hashOf('sk_live_old-7'))) as { readonly id: string };
  await weir.admin(`/keys/${id}`, { method: 'PATCH', body: { disabled: true } });
  await expect.poll(() => statusOf('sk_live_old-7')).toBe(401);
  expect(await imported(csv)).toMatchObject({ created: 0, updated: 0, unchanged: CUSTOMERS });
  expect(await stored(hashOf('sk_live_old-7'))).toMatchObject({ disabled: true });
});

describe('a file', () => {
  const KEY = 'sk_live_1234';
  const HASH = hashOf(KEY);

  test.each([
    [
      'CSV with quotes, blanks and an empty cell',
      'a.csv',
      ['key, name ,tenantId,expiresAt', `${KEY},"Acme, Inc.",acme,`],
    ],
    [
      'CSV with a mark at its beginning, and ends of lines of Windows',
      'b.csv',
      ['\u{feff}key,name,tenantId\r', `${KEY},"Acme, Inc.",acme\r`],
    ],
    ['NDJSON', 'c.ndjson', [`{"key":"${KEY}","name":"Acme, Inc.","tenantId":"acme"}`, '']],
    [
      'NDJSON with a hash',
      'd.jsonl',
      [`{"sha256":"${HASH.toUpperCase()}","name":"Acme, Inc.","tenantId":"acme"}`],
    ],
  ])('can be %s', async (_, name, lines) => {
    expect(await imported(file(name, ...lines))).toMatchObject({ rows: 1, created: 1, tenants: 1 });
    expect(await stored(HASH)).toMatchObject({ name: 'Acme, Inc.', tenantId: 'acme', expiresAt: null });
  });

  test('can have columns of other names, and more than Weir takes', async () => {
    const path = file('map.csv', 'api_key,customer,created', `${KEY},u1,2020-01-01`);
    expect((await importFile(path)).error).toMatch(/^weir: there is no field "api_key": name it with --map/);
    await imported(path, '--map', 'api_key=key,customer=userId,created=');
    expect(await stored(HASH)).toMatchObject({ userId: 'u1' });
  });

  test('can be tried without a change', async () => {
    const path = file('dry.csv', 'key', KEY);
    expect(await imported(path, '--dry-run')).toMatchObject({ dryRun: true, created: 1 });
    expect(await stored(HASH)).toBeUndefined();
  });

  test('that is bad changes nothing, and every bad line is named, without its key', async () => {
    const lines = [
      'key,sha256',
      `${KEY},`,
      'short,',
      `,${HASH}`,
      ',',
      `other-key-1,${HASH}`,
      ',abc',
      'weir_1234567,',
    ];
    const path = file('bad.csv', ...lines);
    const { code, out, error } = await importFile(path);
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(error.replaceAll(`${path}:`, '').split('\n')).toEqual([
      'weir: nothing was imported:',
      '  3 key: must have 8 to 8192 printable ASCII characters, without blanks and commas',
      '  4 has the key of line 2',
      '  5 has neither key nor sha256',
      '  6 has both key and sha256: one of them is enough',
      '  7 sha256: must have 64 hexadecimal digits',
      '  8 key: begins like a key of Weir, and has a mistake in it',
      '',
    ]);
    expect(await stored(HASH)).toBeUndefined();
  });

  test('that Weir refuses is told with its lines', async () => {
    const path = file('tier.csv', 'key,tier,expiresAt', `${KEY},,2030-01-01T00:00:00Z`, 'other-key-1,gold,');
    const { code, error } = await importFile(path);
    expect(code).toBe(1);
    expect(error).toContain(`${path}:3 tier is not a tier; there are none`);
    expect(error).toContain('nothing of rows 1 to 2');
    const late = file('late.csv', 'key,expiresAt', `${KEY},tomorrow`);
    expect((await importFile(late)).error).toContain(`${late}:2 expiresAt must be a moment such as`);
  });

  test.each([
    ['that is not there', 'none.csv', undefined, /^weir: .*none\.csv cannot be read: ENOENT/],
    [
      'that is not there, as NDJSON',
      'none.ndjson',
      undefined,
      /^weir: .*none\.ndjson cannot be read: ENOENT/,
    ],
    ['without rows', 'empty.csv', ['key'], /empty\.csv has no rows/],
    ['with a line that is not JSON', 'x.ndjson', ['{"key":"a'], /x\.ndjson:1 is not JSON/],
    ['with a row that is too long', 'y.csv', ['key', 'a-long-key,b'], /y\.csv cannot be read: .*line 2/],
  ])('%s is an error that says so', async (_, name, lines, message) => {
    const path = lines ? file(name, ...lines) : join(folder, name);
    const { code, error } = await importFile(path);
    expect(code).toBe(1);
    expect(error).toMatch(message);
  });
});

test('an import goes on after a failure, and from a row', async () => {
  const path = file('many.csv', 'key', ...Array.from({ length: 4_001 }, (_, i) => `many-keys-${i}`));
  const send = globalThis.fetch;
  let calls = 0;
  vi.stubGlobal('fetch', async (url: string, init: RequestInit) => {
    calls += 1;
    if (calls === 2) return new Response('down', { status: 503 });
    return send(url, init);
  });
  const { code, out } = await importFile(path).finally(() => vi.unstubAllGlobals());
  expect(code).toBe(0);
  expect(out).toMatch(/^row 2001: .*503.*; again in 1 s$/m);
  expect(out).toMatch(/imported 4001 keys of many\.csv: 4001 created, 0 updated, 0 unchanged/);
  expect(await imported(path, '--from', '4001')).toMatchObject({ created: 0, unchanged: 1 });
});
