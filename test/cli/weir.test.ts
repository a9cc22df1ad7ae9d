// `npx weir` on the local stack: each command, its JSON, and its exit code.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { newsOf } from '../../cli/commands/records.ts';
import { freshIp, type Weir } from '../../local/weir.ts';
import { createConformance, createRequestConformance, type OpenApiDocument } from '../admin/conformance.ts';
import { DELETE_ALL } from '../rules/database.ts';
import { startWeir } from '../shared/weir.ts';
import { runCli, runProcess, startProcess, urlOf, variablesOf } from './run-cli.ts';

let weir: Weir;
let folder: string;
let document: OpenApiDocument;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'weir-cli-'));
  weir = await startWeir({ TELEMETRY_SECONDS: '1' }, { isolates: ['one'] });
  document = await weir.admin<OpenApiDocument>('/openapi.json');
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await weir[Symbol.asyncDispose]();
});
beforeEach(() => weir.sql(DELETE_ALL));

/** The requests to the admin route in a test, and the answers. */
const calls: { readonly request: Request; readonly response: Response }[] = [];
const run = async (...args: string[]) => {
  const send = globalThis.fetch;
  vi.stubGlobal('fetch', async (url: string, init: RequestInit) => {
    const response = await send(url, init);
    if (url.includes('/_weir/admin/'))
      calls.push({ request: new Request(url, init), response: response.clone() });
    return response;
  });
  return runCli(args, variablesOf(weir)).finally(() => vi.unstubAllGlobals());
};
// Commands use only what the OpenAPI document offers, and the document describes what they read.
afterEach(async () => {
  for (const { request, response } of calls.splice(0)) {
    await createConformance(document)(request, response);
    // The body of a refused file is outside the document on purpose.
    if (response.status !== 400) await createRequestConformance(document)(request);
  }
});
const RULE = {
  name: 'a',
  resource: '/a',
  scope: 'ip',
  algorithm: 'fixed-window',
  limit: 1,
  windowSeconds: 3600,
};
const addRule = (more: object = {}) => weir.admin('/rules', { method: 'POST', body: { ...RULE, ...more } });
const file = (name: string, document: unknown) => {
  const path = join(folder, name);
  writeFileSync(path, typeof document === 'string' ? document : JSON.stringify(document));
  return path;
};

describe('weir rules', () => {
  test('diff ends with 2 and names each difference', async () => {
    await addRule();
    await addRule({ name: 'gone', resource: '/gone' });
    const path = file('rules.json', {
      weir: 1,
      rules: [
        { ...RULE, limit: 5 },
        { ...RULE, name: 'b', resource: '/b' },
      ],
    });
    const { code, out } = await run('rules', 'diff', path);
    expect(out.split('\n')).toEqual([
      '+ rules b',
      '~ rules a: limit 1 → 5',
      '- rules gone',
      '3 differences',
      '',
    ]);
    expect(code).toBe(2);
    const json = await run('rules', 'diff', path, '--json');
    expect(json.code).toBe(2);
    expect(JSON.parse(json.out)).toMatchObject({ drift: true, rules: { created: ['b'] } });
  });

  test('apply takes over the rules of a file, and deletes other rules only with --prune', async () => {
    await addRule({ name: 'gone', resource: '/gone' });
    const path = file('rules.json', { weir: 1, rules: [RULE] });
    expect((await run('rules', 'apply', path)).out).toBe('+ rules a\n1 changes are in force\n');
    expect((await run('rules', 'diff', path)).code).toBe(2);
    expect((await run('rules', 'apply', path, '--prune')).out).toContain('- rules gone');
    expect((await run('rules', 'diff', path)).code).toBe(0);
  });

  test('an exported file has no difference, even after its rules were changed and changed back', async () => {
    await addRule();
    const path = join(folder, 'exported.json');
    expect(await run('rules', 'export', path)).toMatchObject({ code: 0, out: `wrote ${path}\n` });
    expect((await run('rules', 'diff', path)).code).toBe(0);
    await weir.sql(`update rules set "limit" = 2; update rules set "limit" = 1`);
    expect((await run('rules', 'diff', path)).code).toBe(0);
    expect(await run('rules', 'apply', path)).toMatchObject({ code: 0, out: 'nothing to change\n' });
  });

  test('a file can be applied again and again, and edited in between', async () => {
    await addRule();
    const path = join(folder, 'edited.json');
    await run('rules', 'export', path);
    const edit = (limit: number) => {
      const document = JSON.parse(readFileSync(path, 'utf8')) as { rules: object[] };
      writeFileSync(path, JSON.stringify({ ...document, rules: [{ ...document.rules[0], limit }] }));
    };
    for (const limit of [5, 6]) {
      edit(limit);
      expect((await run('rules', 'apply', path)).out).toContain('1 changes are in force');
      const { items: before } = await weir.admin<{ items: unknown[] }>('/history');
      expect(await run('rules', 'apply', path)).toMatchObject({ code: 0, out: 'nothing to change\n' });
      expect((await weir.admin<{ items: unknown[] }>('/history')).items).toEqual(before);
    }
  });

  test('a setting that differs is a difference, too', async () => {
    const path = file('settings.json', { weir: 1, settings: { enforcement: 'log' } });
    const line = '~ settings: enforcement "on" → "log"';
    expect(await run('rules', 'diff', path)).toMatchObject({ code: 2, out: expect.stringContaining(line) });
    expect((await run('rules', 'apply', path)).out).toBe(`${line}\n1 changes are in force\n`);
    await weir.admin('/settings', { method: 'PATCH', body: { enforcement: 'on' } });
  });

  test('a change that somebody makes between the plan and the import is not overwritten', async () => {
    await addRule();
    const path = file('race.json', { weir: 1, rules: [{ ...RULE, limit: 9 }] });
    const send = globalThis.fetch;
    const between = vi.spyOn(globalThis, 'fetch').mockImplementation(async (to, init) => {
      if (String(to).endsWith('/import?mode=merge')) await weir.sql('update rules set "limit" = 3');
      return send(to, init);
    });
    const ran = await runCli(['rules', 'apply', path], variablesOf(weir));
    between.mockRestore();
    expect(ran).toMatchObject({ code: 1, error: expect.stringContaining('409') });
    const { items } = await weir.admin<{ items: { name: string; limit: number }[] }>('/rules');
    expect(items.find(({ name }) => name === 'a')?.limit).toBe(3);
  });

  test('a wrong rule is refused, and the message says where it is', async () => {
    const path = file('bad.json', { weir: 1, rules: [{ ...RULE, limit: -1 }] });
    expect(await run('rules', 'apply', path)).toMatchObject({
      code: 1,
      error: expect.stringContaining('#/rules/0/limit'),
    });
  });

  test('a file that is missing or not JSON is named', async () => {
    expect((await run('rules', 'diff', '/nowhere.json')).error).toBe('weir: /nowhere.json cannot be read\n');
    expect((await run('rules', 'diff', file('text.json', 'no'))).error).toContain('text.json is not JSON');
  });
});

test('weir explain says which rules apply, and which do not and why', async () => {
  await addRule();
  await addRule({ name: 'other', resource: '/other' });
  const { out, code } = await run('explain', '/a', '--ip', '192.0.2.7');
  expect(code).toBe(0);
  expect(out).toMatch(/^applies +a +/m);
  expect(out).toMatch(/^does not +other +/m);
  const json = JSON.parse((await run('explain', 'POST', '/a', '--ip', '192.0.2.7', '--json')).out);
  expect(json).toMatchObject({ applies: [{ name: 'a' }] });
});

test('weir quota shows what a caller has left, and charges nothing', async () => {
  await addRule({ scope: 'apiKey', limit: 7 });
  const { key } = await weir.admin<{ key: string }>('/keys', { method: 'POST', body: {} });
  for (const _ of [1, 2]) {
    const { limits } = JSON.parse((await run('quota', '--key', key, '--json')).out);
    expect(limits).toMatchObject([{ limit: 7, remaining: 7 }]);
  }
  expect((await run('quota', '--key', key)).out).toContain('remaining');
});

test('weir top and tail show who was denied', async () => {
  await addRule();
  const ip = freshIp();
  using tail = startProcess(['tail', '--every', '0.2', '--json'], variablesOf(weir));
  const deny = async () => {
    for (const _ of [1, 2, 3]) await (await weir.call('/a', { ip })).body?.cancel();
    return (await run('top', '--json')).out;
  };
  await expect.poll(deny, { interval: 500 }).toContain(ip);
  expect((await run('top')).out).toMatch(new RegExp(`^ip ${ip.replaceAll('.', '\\.')} +\\d+ `, 'm'));
  await expect
    .poll(
      async () => {
        await deny();
        return tail.out();
      },
      { interval: 500 },
    )
    .toContain(`"subject":"${ip}"`);
});

test('weir why says why a request was denied, and lists the sample', async () => {
  await addRule({ name: 'why', resource: '/why' });
  const ip = freshIp();
  const ray = '8f2a5c3d1e4b6a70';
  const send = async () => (await weir.call('/why', { ip, headers: { 'CF-Ray': `${ray}-FRA` } })).status;
  await expect.poll(send).toBe(429);
  await expect.poll(async () => (await run('why', `${ray}-FRA`)).code).toBe(0);
  const { out } = await run('why', ray);
  expect(out.split('\n')).toEqual([
    expect.stringMatching(/^\S+Z: GET was answered 429 rate-limited$/),
    'caller: no id; route default, region us',
    expect.stringMatching(
      new RegExp(
        `^denied by why \\(.{36}\\) for /why, counted as ip ${ip}: 1 in \\d+ s, 0 left, cost 1, retry after \\d+ s$`,
      ),
    ),
    '',
  ]);
  expect((await run('why', '--rule', 'why')).out).toMatch(new RegExp(`^${ray}  \\S+Z  no id +why$`, 'm'));
  const unknown = await run('why', 'no-such-request');
  expect(unknown).toMatchObject({ code: 1, error: expect.stringContaining('404 There is no such request') });
});

test('weir tail ends with 0 after the time that it was given', async () => {
  expect(await run('tail', '--rule', 'a', '--every', '2', '--for', '1', '--json')).toMatchObject({ code: 0 });
});

test('weir tail shows rows that have grown, and by how much, oldest first', () => {
  const event = {
    at: '2030-01-01T00:00:00Z',
    scope: 'ip',
    ruleId: 'r',
    ruleName: 'R',
    subject: 'x',
    ...{ tenantId: 'acme', userId: null, apiKeyId: 'k', apiKeyName: null },
    count: 5,
  };
  const id = JSON.stringify([event.at, 'ip', 'r', 'x', 'acme', null, 'k']);
  const other = { ...event, apiKeyId: 'another' };
  expect(newsOf([other, event], new Map([[id, 3]]))).toEqual([{ ...event, count: 2 }, other]);
  expect(newsOf([event], new Map([[id, 5]]))).toEqual([]);
});

test('a backup restores everything after it was deleted, and the key works again', async () => {
  await addRule({ scope: 'apiKey', limit: 7 });
  const { key } = await weir.admin<{ key: string }>('/keys', { method: 'POST', body: { userId: 'ann' } });
  const path = join(folder, 'backup.json');
  expect((await run('backup', path)).out).toContain('1 keys, 1 users');
  expect(readFileSync(path, 'utf8')).not.toContain(key);
  await weir.sql(DELETE_ALL);
  expect((await run('restore', path)).out).toContain('1 keys, 1 users');
  await expect
    .poll(async () => JSON.parse((await run('quota', '--key', key, '--json')).out).limits)
    .toMatchObject([{ limit: 7 }]);
});

describe('a mistake is one clear line', () => {
  test.each([
    ['no such command', ['nonsense'], 'there is no command "nonsense"'],
    ['no such option', ['top', '--loud'], "Unknown option '--loud'"],
    ['a wrong token', ['top', '--token', 'a-token-that-nobody-has'], '401'],
    ['a wrong address', ['top', '--url', 'http://127.0.0.1:9'], 'nothing answers at http://127.0.0.1:9'],
    ['no file', ['rules', 'diff'], 'usage: weir rules diff FILE'],
  ])('%s', async (_, args, says) => {
    const { code, error } = await run(...args);
    expect(error).toContain(says);
    expect(code).toBe(1);
  });

  test('no token', async () => {
    const { error } = await runCli(['top', '--url', urlOf(weir)]);
    expect(error).toBe('weir: an admin token is needed: set ADMIN_TOKEN, or give --token\n');
  });
});

test('--help lists every command', async () => {
  const { out, code } = await runCli(['--help']);
  for (const name of ['rules', 'explain', 'why', 'top', 'tail', 'quota', 'smoke', 'backup', 'restore'])
    expect(out).toMatch(new RegExp(`^  ${name}\\b`, 'm'));
  expect(code).toBe(0);
});

test('the process prints what the function prints, and ends with its code', async () => {
  for (const args of [
    ['rules', 'diff', '/nowhere.json'],
    ['top', '--json'],
  ])
    expect(await runProcess(args, variablesOf(weir))).toEqual(await run(...args));
});
