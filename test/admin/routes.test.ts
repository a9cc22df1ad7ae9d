// The collection `routes`: what it refuses and answers, its history, its publication, and its place in documents.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { readContent } from '../../src/rules/publishing/content.ts';
import { createRuleReader } from '../../src/rules/publishing/rule-reader.ts';
import { routes } from '../../src/rules/tables/tables.ts';
import { type Admin, startAdmin } from './harness.ts';
import { create, read, readProblem } from './samples.ts';

const ORIGIN = 'https://origin.example.com';

let admin: Admin;
beforeAll(async () => {
  admin = await startAdmin();
});
afterAll(() => admin?.[Symbol.asyncDispose]());
beforeEach(() => admin.db.database.delete(routes));

const post = (body: unknown) => admin.call('/routes', { method: 'POST', body });

describe('a route', () => {
  it('is kept in its canonical spelling', async () => {
    const route = await create(admin, 'routes', {
      host: '*.Example.COM.',
      resource: '/API//v1/*',
      stripPrefix: '/Api',
      origin: 'HTTPS://origin.example.com/Base',
    });
    expect(route).toMatchObject({
      host: '*.example.com',
      resource: '/api/v1/*',
      stripPrefix: '/api',
      origin: 'https://origin.example.com/Base',
      name: expect.stringMatching(/^route-[0-9a-f]{8}$/),
    });
  });

  it.each([
    [{ origin: 'http://127.0.0.1' }, 'origin', 'loopback or private'],
    [{ origin: 'http://api.example.com' }, 'origin', 'plain http'],
    [{ origin: 'service:OTHER' }, 'origin', 'it has DEMO'],
    [{ origin: 'example.com' }, 'origin', 'must be an https URL, service:NAME or pass'],
    [{ origin: 'https://a.example.com', host: 'a.example.com' }, 'origin', 'own origin is pass'],
    [{ origin: ORIGIN, host: 'a.example.com:80' }, 'host', 'must be a host'],
    [{ origin: ORIGIN, resource: 'api/*' }, 'resource', 'must start with /'],
    [{ origin: ORIGIN, resource: '/_weir/x/*' }, 'resource', 'is under /_weir'],
    [{ origin: ORIGIN, resource: '/a' }, 'resource', 'such as /api/*'],
    [{ origin: ORIGIN, resource: '/a/:id/*' }, 'resource', 'without parameters'],
    [{ origin: ORIGIN, resource: '/a*' }, 'resource', 'such as /api/*'],
    [{ origin: ORIGIN, resource: '/a/*', stripPrefix: '/a/*' }, 'stripPrefix', 'is a path, without *'],
    [
      { origin: ORIGIN, resource: '/a/*', stripPrefix: '/b' },
      'stripPrefix',
      'must be /a, or how that begins',
    ],
    [{ origin: ORIGIN, stripPrefix: '/' }, 'stripPrefix', 'must be /'],
    [{ origin: ORIGIN, headers: { Host: 'x' } }, 'headers/Host', 'hostHeader'],
    [{ origin: ORIGIN, headers: { 'X-Weir-User': 'x' } }, 'headers/X-Weir-User', 'cannot be set'],
    [{ origin: ORIGIN, hostHeader: 'a b' }, 'hostHeader', 'must be a host'],
    [{ origin: ORIGIN, timeoutMs: 0 }, 'timeoutMs', ''],
  ])('%j is refused at %s', async (body, field, detail) => {
    const response = await post(body);
    const { errors } = await readProblem(response);
    expect([response.status, errors]).toEqual([
      400,
      [{ pointer: `#/${field}`, detail: expect.stringContaining(detail) }],
    ]);
  });

  it('has its host and resource to itself, unless it is switched off', async () => {
    const place = { host: 'a.example.com', resource: '/x/*', origin: ORIGIN };
    await create(admin, 'routes', place);
    const response = await post({ ...place, resource: '/X/*' });
    const { code, errors } = await readProblem(response);
    expect([response.status, code]).toEqual([409, 'already-exists']);
    expect(errors?.map(({ pointer }) => pointer)).toEqual(['#/host', '#/resource']);
    await create(admin, 'routes', { ...place, enabled: false });
  });

  it('is found by its host in any case, by its origin, its name, and whether it is in force', async () => {
    await create(admin, 'routes', { name: 'one', host: 'a.example.com', origin: ORIGIN });
    await create(admin, 'routes', { name: 'two', host: 'b.example.com', origin: 'pass', enabled: false });
    const named = async (query: string) => {
      const { items } = (await (await admin.call(`/routes${query}`)).json()) as { items: { name: string }[] };
      return items.map(({ name }) => name);
    };
    expect(await named('?host=A.example.com')).toEqual(['one']);
    expect(await named('?origin=pass')).toEqual(['two']);
    expect(await named('?enabled=true')).toEqual(['one']);
    expect(await named('?q=TW')).toEqual(['two']);
  });

  it('is in the history, and a rollback brings it back', async () => {
    const { id } = await create(admin, 'routes', { name: 'kept', origin: ORIGIN });
    await admin.call(`/routes/${id}`, { method: 'DELETE' });
    const { items } = (await (await admin.call(`/history?entity=routes&entityId=${id}`)).json()) as {
      items: { changeId: number; action: string }[];
    };
    expect(items.map(({ action }) => action)).toEqual(['deleted', 'created']);
    const undone = await admin.call(`/history/${items[0]?.changeId}/rollback`, { method: 'POST', body: {} });
    expect(undone.status).toBe(200);
    expect(await read(await admin.call(`/routes/${id}`))).toMatchObject({ name: 'kept', origin: ORIGIN });
  });
});

describe('in a publication, routes', () => {
  const published = async () => {
    const { content, rejected } = await createRuleReader(admin.db.database, { now: () => Date.now() }).read({
      us: 1,
    });
    return { routes: content.routes?.map(({ name }) => name), rejected };
  };

  it('that are switched off are left out', async () => {
    await create(admin, 'routes', { name: 'on', origin: ORIGIN });
    await create(admin, 'routes', { name: 'off', origin: ORIGIN, enabled: false });
    expect(await published()).toEqual({ routes: ['on'], rejected: [] });
  });

  it('that this Worker cannot serve are left out, with the reason, and the others are published', async () => {
    await admin.db.database.insert(routes).values([
      { name: 'good', origin: ORIGIN },
      { name: 'private', resource: '/private/*', origin: 'https://10.0.0.1' },
      { name: 'unbound', resource: '/unbound/*', origin: 'service:OTHER' },
    ]);
    const { routes: names, rejected } = await published();
    expect(names).toEqual(['good']);
    expect(rejected).toEqual([
      {
        id: expect.any(String),
        name: 'private',
        problems: [expect.stringContaining('origin: is a loopback')],
      },
      {
        id: expect.any(String),
        name: 'unbound',
        problems: [expect.stringContaining('origin: names a service')],
      },
    ]);
    // A list of rules does not show these.
    expect((await readContent(admin.db.database, Date.now())).rejected).toEqual([]);
  });

  it('change the version of the rules', async () => {
    const version = async () =>
      ((await (await admin.call('/publish', { method: 'POST' })).json()) as { version: string }).version;
    const before = await version();
    const { id } = await create(admin, 'routes', { name: 'x', origin: ORIGIN });
    expect(await version()).not.toBe(before);
    await admin.call(`/routes/${id}`, { method: 'DELETE' });
    expect(await version()).toBe(before);
  });
});
