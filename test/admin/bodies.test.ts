// A body that is missing is not a body without fields: it would replace a row with defaults.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Admin, startAdmin } from './harness.ts';

let admin: Admin;
beforeAll(async () => {
  admin = await startAdmin();
});
afterAll(() => admin[Symbol.asyncDispose]());

interface Described {
  readonly requestBody?: { readonly required?: boolean };
}

const json = { 'Content-Type': 'application/json' };
const MISSING: [string, { readonly text?: string; readonly headers: Record<string, string> }][] = [
  ['no body and no type', { headers: {} }],
  ['no body, declared as JSON', { headers: json }],
  ['a body of no bytes', { text: '', headers: json }],
  ['a body of blanks', { text: ' \r\n\t', headers: json }],
  ['a body of no bytes, of another type', { text: '', headers: { 'Content-Type': 'text/plain' } }],
];

describe.each(MISSING)('%s', (_, how) => {
  it('is refused by every operation that needs a body, and the answer says what to send', async () => {
    const needed = Object.entries(admin.document.paths).flatMap(([path, operations]) =>
      Object.entries(operations)
        .filter(([, operation]) => (operation as Described).requestBody?.required)
        .map(([method]) => ({ method: method.toUpperCase(), path: path.replace('/_weir/admin', '') })),
    );
    // Three operations of each of seven collections, and two imports, settings, explain, reset and revocation.
    expect(needed).toHaveLength(27);
    for (const { method, path } of needed) {
      const id = path.startsWith('/rules') ? '00000000-0000-4000-8000-000000000000' : 'nobody';
      const answer = await admin.call(path.replace('{id}', id), { method, ...how });
      expect({ method, path, status: answer.status, ...((await answer.json()) as object) }).toMatchObject({
        method,
        path,
        status: 400,
        code: 'missing-body',
        detail: 'Send a JSON object; {} is one without fields.',
      });
    }
  });

  it('does not enable a disabled key again, nor remove its expiry', async () => {
    const made = await admin.call('/keys', {
      method: 'POST',
      body: { name: 'leaked', disabled: true, expiresAt: '2100-01-01T00:00:00.000Z' },
    });
    const { id } = (await made.json()) as { id: string };
    for (const method of ['PUT', 'PATCH'])
      expect((await admin.call(`/keys/${id}`, { method, ...how })).status).toBe(400);
    expect(await (await admin.call(`/keys/${id}`)).json()).toMatchObject({
      disabled: true,
      expiresAt: '2100-01-01T00:00:00.000Z',
    });
  });

  it('makes no key', async () => {
    const count = async () => ((await (await admin.call('/keys')).json()) as { items: [] }).items.length;
    const before = await count();
    expect((await admin.call('/keys', { method: 'POST', ...how })).status).toBe(400);
    expect(await count()).toBe(before);
  });
});

describe('an object without fields', () => {
  it('makes a key that belongs to nobody, because every field of a key has a default', async () => {
    const answer = await admin.call('/keys', { method: 'POST', body: {} });
    expect(answer.status).toBe(201);
    expect(await answer.json()).toMatchObject({ name: '', userId: null, tenantId: null, disabled: false });
  });

  it('changes nothing as a patch', async () => {
    const made = await admin.call('/keys', { method: 'POST', body: { name: 'kept', disabled: true } });
    const { id } = (await made.json()) as { id: string };
    const answer = await admin.call(`/keys/${id}`, { method: 'PATCH', body: {} });
    expect(await answer.json()).toMatchObject({ name: 'kept', disabled: true });
  });
});
