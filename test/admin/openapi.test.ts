// The document is valid by an independent validator, complete, and readable by people.
import { Validator } from '@seriousme/openapi-schema-validator';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Admin, startAdmin } from './harness.ts';

let admin: Admin;
beforeAll(async () => {
  admin = await startAdmin();
});
afterAll(() => admin[Symbol.asyncDispose]());

const COLLECTIONS = ['rules', 'tiers', 'tenants', 'users', 'keys', 'lists'];

interface Operation {
  readonly summary?: string;
  readonly tags?: readonly string[];
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, unknown>> }>>;
}

const operations = () =>
  Object.entries(admin.document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      path,
      method,
      operation: operation as Operation,
    })),
  );

describe('the OpenAPI document', () => {
  it('is valid OpenAPI 3.1', async () => {
    const served = await (await admin.call('/openapi.json')).json();
    const result = await new Validator().validate(served as Record<string, unknown>);
    expect(result).toMatchObject({ valid: true });
    expect(served).toEqual(admin.document);
  });

  it.each(COLLECTIONS)('has all six operations of %s', (name) => {
    const collection = admin.document.paths[`/_weir/admin/${name}`] ?? {};
    const item = admin.document.paths[`/_weir/admin/${name}/{id}`] ?? {};
    expect(Object.keys(collection).sort()).toEqual(['get', 'post']);
    expect(Object.keys(item).sort()).toEqual(['delete', 'get', 'patch', 'put']);
  });

  it('asks for a token, and gives every operation a summary, a group and its problems', () => {
    expect(admin.document).toMatchObject({
      security: [{ bearer: [] }],
      components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
    });
    for (const { path, method, operation } of operations()) {
      const { summary, tags, responses } = operation;
      expect({ path, method, summary, tags }).toMatchObject({
        summary: expect.stringMatching(/.{5}/),
        tags: [expect.any(String)],
      });
      for (const status of ['401', '403', '429', '500', '503'])
        expect(responses[status]?.content).toHaveProperty(['application/problem+json']);
    }
  });

  it('refuses unknown fields in every body that it describes', () => {
    const bodies = Object.entries(admin.document.components.schemas).filter(([name]) =>
      /(Creation|Replacement|Patch)$/.test(name),
    );
    expect(bodies.length).toBeGreaterThanOrEqual(18);
    for (const [name, schema] of bodies)
      expect({ name, schema }).toMatchObject({ schema: { additionalProperties: false } });
  });

  it('lists the defaults of a rule', () => {
    expect(admin.document.components.schemas['RuleCreation']).toMatchObject({
      required: ['scope'],
      properties: {
        cost: { default: 1 },
        status: { default: 429 },
        enabled: { default: true },
        methods: { default: [] },
      },
    });
  });
});

describe('the page of the API', () => {
  it('shows every operation and every body, without scripts or anything from elsewhere', async () => {
    const response = await admin.call('/docs');
    expect(response.headers.get('Content-Type')).toBe('text/html; charset=utf-8');
    expect(response.headers.get('Content-Security-Policy')).toContain("default-src 'none'");
    const html = await response.text();
    for (const { path, method } of operations())
      expect(html).toContain(`<b>${method.toUpperCase()}</b> <code>${path}</code>`);
    for (const name of Object.keys(admin.document.components.schemas))
      expect(html).toContain(`<h3 id="${name}">`);
    expect(html).not.toMatch(/<script|src=|href="(?!#)|@import|url\(/i);
    expect(html).not.toContain('undefined');
    expect(html.length).toBeLessThan(250_000);
  });

  it('has examples that the admin route accepts', async () => {
    const html = await (await admin.call('/docs')).text();
    const examples = [
      ...html.matchAll(
        /<pre>curl -X POST &#34;\$WEIR\/_weir\/admin(\/\w+)[\s\S]*?-d &#39;([^<]+)&#39;<\/pre>/g,
      ),
    ];
    expect(examples.map(([, path]) => path)).toEqual(['/rules', '/tiers', '/users', '/keys', '/lists']);
    for (const [, path = '', body = ''] of examples) {
      const response = await admin.call(path, { method: 'POST', text: body.replaceAll('&#34;', '"') });
      expect([path, response.status]).toEqual([path, 201]);
    }
  });

  it('links only to bodies that it shows', async () => {
    const html = await (await admin.call('/docs')).text();
    const ids = new Set([...html.matchAll(/id="([^"]+)"/g)].map(([, id]) => id));
    for (const [, target] of html.matchAll(/href="#([^"]+)"/g)) expect(ids).toContain(target);
  });
});
