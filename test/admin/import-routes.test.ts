// Routes in the document of an export and an import.
import { describe, expect, test } from 'vitest';
import { EMPTY, rule, useImports } from './import-export-harness.ts';

const { take, send, exported, query } = useImports();

const ORIGIN = 'https://origin.example.com';
const route = (name: string, more: object = {}) => ({
  name,
  resource: `/${name}/*`,
  origin: ORIGIN,
  ...more,
});
const places = async () =>
  (await query('select name, prefix from routes order by name')).rows.map(
    ({ name, prefix }) => name + prefix,
  );

describe('routes', () => {
  test('are exported without their defaults, and imported again without a change', async () => {
    const { routes } = await take({
      weir: 1,
      routes: [route('b', { enabled: false, headers: { 'X-A': '1' } }), { name: 'a', origin: 'pass' }],
    });
    expect(routes).toEqual({ ...EMPTY, created: ['b', 'a'] });
    const document = await exported();
    expect(document.routes).toEqual([
      { id: expect.any(String), name: 'a', origin: 'pass' },
      {
        id: expect.any(String),
        name: 'b',
        resource: '/b/*',
        origin: ORIGIN,
        enabled: false,
        headers: { 'X-A': '1' },
      },
    ]);
    for (const mode of ['merge', 'replace'])
      expect((await take(document, `?mode=${mode}`)).routes).toEqual({ ...EMPTY, unchanged: 2 });
  });

  test('show in a dry run what would change', async () => {
    await take({ weir: 1, routes: [route('a'), route('b')] });
    const wanted = { weir: 1 as const, routes: [route('a', { resource: '/A/2/*' }), route('c')] };
    const expected = {
      created: ['c'],
      updated: [{ name: 'a', changes: { resource: { from: '/a/*', to: '/a/2/*' } } }],
      deleted: ['b'],
      unchanged: 0,
    };
    expect((await take(wanted, '?mode=replace&dryRun=true')).routes).toEqual(expected);
    expect(await places()).toEqual(['a/a', 'b/b']);
    expect((await take(wanted, '?mode=replace')).routes).toEqual(expected);
    expect(await places()).toEqual(['a/a/2', 'c/c']);
  });

  test('may swap resources and names', async () => {
    await take({ weir: 1, routes: [route('a'), route('b')] });
    await take({ weir: 1, routes: [route('a', { resource: '/b/*' }), route('b', { resource: '/a/*' })] });
    expect(await places()).toEqual(['a/b', 'b/a']);
    const [a, b] = (await exported()).routes;
    await take({
      weir: 1,
      routes: [
        { ...a, name: 'b' },
        { ...b, name: 'a' },
      ],
    });
    expect(await places()).toEqual(['a/a', 'b/b']);
  });

  test('stay if the document has no routes, and rules stay if it has only routes', async () => {
    await take({ weir: 1, routes: [route('a')] });
    expect((await take({ weir: 1, rules: [] }, '?mode=replace')).routes).toEqual({ ...EMPTY, unchanged: 1 });
    expect(await places()).toEqual(['a/a']);
    await take({ weir: 1, rules: [rule('kept')] });
    const { rules, routes } = await take({ weir: 1, routes: [] }, '?mode=replace');
    expect({ rules, routes }).toEqual({
      rules: { ...EMPTY, unchanged: 1 },
      routes: { ...EMPTY, deleted: ['a'] },
    });
    expect((await exported()).rules).toEqual([expect.objectContaining({ name: 'kept' })]);
  });

  test.each([
    [[route('a'), route('a', { resource: '/x/*' })], '#/routes/1/name', 'is that of #/routes/0 too'],
    [[route('a'), route('b', { resource: '/A/*' })], '#/routes/1/resource', 'another route of this host'],
    [[route('new', { resource: '/standing/*' })], '#/routes/0/resource', 'another route of this host'],
    [[route('a', { origin: 'https://10.0.0.1' })], '#/routes/0/origin', 'loopback or private'],
    [[route('a', { origin: 'service:OTHER' })], '#/routes/0/origin', 'it has DEMO'],
    [[route('a', { origin: 'x' })], '#/routes/0/origin', 'must be an https URL'],
    [[route('a', { stripPrefix: '/z' })], '#/routes/0/stripPrefix', 'must be /a'],
  ])('%j are refused as a whole', async (routes, pointer, detail) => {
    await take({ weir: 1, routes: [route('standing')] });
    const response = await send({ weir: 1, routes });
    expect([response.status, await response.json()]).toMatchObject([
      400,
      { errors: [{ pointer, detail: expect.stringContaining(detail) }] },
    ]);
    expect(await places()).toEqual(['standing/standing']);
  });

  test('that have changed since the export are not overwritten', async () => {
    await take({ weir: 1, routes: [route('a')] });
    const document = await exported();
    await query(`update routes set timeout_ms = 5`);
    expect((await send(document)).status).toBe(409);
  });
});
