// The document is valid by an independent validator, complete, and readable by people.
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Admin, startAdmin } from './harness.ts';

let admin: Admin;
beforeAll(async () => {
  admin = await startAdmin();
});
afterAll(() => admin[Symbol.asyncDispose]());

const COLLECTIONS = ['rules', 'tiers', 'tenants', 'users', 'keys', 'lists'];

const OPERATION_IDS = [
  ...['Rules', 'Tiers', 'Tenants', 'Users', 'Keys', 'ListEntries', 'Routes'].map((many) => `list${many}`),
  ...['Rule', 'Tier', 'Tenant', 'User', 'Key', 'ListEntry', 'Route'].flatMap((one) =>
    ['create', 'get', 'replace', 'patch', 'delete'].map((verb) => verb + one),
  ),
  ...[
    'resetCounters',
    'revokeCaller',
    'explainRequest',
    'listHistory',
    'rollBackChange',
    'exportRules',
    'importRules',
    'importKeys',
  ],
  ...['readLimits', 'getOpenApiDocument', 'getApiPage', 'publish', 'listViolators', 'listEvents'],
  ...['listDeniedRequests', 'readDeniedRequest'],
  ...['readEventSeries', 'listUsage', 'getSettings', 'patchSettings', 'smoke', 'readTraffic'],
  'readWouldDeny',
];

interface Operation {
  readonly operationId?: string;
  readonly parameters?: readonly { readonly name: string; readonly schema: { readonly default?: unknown } }[];
  readonly requestBody?: object;
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

  it('names every operation, and the names never change, because generated clients have methods of these names', () => {
    const ids = operations().map(({ operation }) => operation.operationId);
    expect(ids.toSorted()).toEqual(OPERATION_IDS.toSorted());
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('refuses unknown fields in every body that it describes', () => {
    const bodies = Object.entries(admin.document.components.schemas).filter(([name]) =>
      /(Creation|Replacement|Patch)$/.test(name),
    );
    expect(bodies.length).toBeGreaterThanOrEqual(18);
    for (const [name, schema] of bodies)
      expect({ name, schema }).toMatchObject({ schema: { additionalProperties: false } });
  });

  it('lets people write a limit as a number or a text, and answers with a number', () => {
    const text = expect.objectContaining({ type: 'string' });
    const limit = { anyOf: expect.arrayContaining([text]) };
    const { schemas } = admin.document.components;
    for (const name of ['RuleCreation', 'RuleReplacement', 'RulePatch', 'DocumentRule', 'WrittenLimit'])
      expect([name, schemas[name]]).toMatchObject([name, { properties: { limit } }]);
    expect(schemas['Rule']).toMatchObject({ properties: { limit: { type: ['integer', 'null'] } } });
    expect(schemas['RuleLimit']).toMatchObject({ properties: { limit: { type: 'integer' } } });
  });

  it('lists the defaults of a rule', () => {
    const schemas = admin.document.components.schemas;
    for (const name of ['RuleCreation', 'RuleReplacement'])
      expect(schemas[name]).not.toHaveProperty('required');
    expect(schemas['DocumentRule']).toMatchObject({ required: ['name'] });
    expect(schemas['RuleCreation']).toMatchObject({
      properties: {
        scope: { default: 'ip' },
        algorithm: { description: expect.stringContaining('The default is sliding-window-counter') },
        cost: { default: 1 },
        status: { default: 429 },
        enabled: { default: true },
        methods: { default: [] },
      },
    });
  });
});

describe('every default in the document', () => {
  const ajv = new Ajv2020({ strict: false });
  formats.default(ajv);

  interface Found {
    readonly at: string;
    readonly schema: { readonly default: unknown };
  }
  /** A schema, not a field of that name. */
  const isSchema = (value: object): value is Found['schema'] =>
    'default' in value && ['type', 'anyOf', 'enum', '$ref'].some((key) => key in value);
  const defaultsIn = (value: unknown, at: string): Found[] =>
    typeof value !== 'object' || value === null
      ? []
      : [
          ...(isSchema(value) ? [{ at, schema: value }] : []),
          ...Object.entries(value).flatMap(([key, inner]) => defaultsIn(inner, `${at}/${key}`)),
        ];

  it('fits its own schema', () => {
    const found = defaultsIn(admin.document, '');
    expect(found.length).toBeGreaterThan(100);
    ajv.addSchema({ $id: 'document', components: admin.document.components });
    const wrong = found.filter(({ schema }) => {
      const text = JSON.stringify(schema).replaceAll('"#/components', '"document#/components');
      return !ajv.validate(JSON.parse(text), schema.default);
    });
    expect(wrong).toEqual([]);
  });

  it('of a query is accepted by the API', async () => {
    const asked: string[] = [];
    for (const { path, method, operation } of operations()) {
      const given = operation.parameters?.filter(({ schema }) => 'default' in schema) ?? [];
      for (const { name, schema } of given) {
        const query = new URLSearchParams({ [name]: String(schema.default) });
        const where = path.replace('/_weir/admin', '').replace(/\{\w+\}/, '1');
        const body = operation.requestBody && {};
        const answer = await admin.call(`${where}?${query}`, { method: method.toUpperCase(), body });
        expect([where, name, await answer.clone().text()]).not.toContainEqual(
          expect.stringContaining('invalid-request'),
        );
        asked.push(`${method} ${where} ${name}`);
      }
    }
    expect(asked).toContain('get /violators since');
    expect(asked.length).toBeGreaterThan(20);
  });

  it.each([
    ['Rule', '/rules', { name: 'all', resource: '/x', limit: 1, windowSeconds: 1 }],
    ['Tier', '/tiers', { name: 'all' }],
    ['Tenant', '/tenants', { id: 'all' }],
    ['User', '/users', { id: 'all' }],
    ['ApiKey', '/keys', {}],
    ['ListEntry', '/lists', { list: 'deny', kind: 'user', value: 'all' }],
    ['Route', '/routes', { name: 'all', origin: 'https://api.example.com' }],
  ])('of a %s is accepted by the API, whether it is given or left out', async (name, path, needed) => {
    const { properties } = admin.document.components.schemas[`${name}Creation`] as {
      properties: Record<string, { default?: unknown }>;
    };
    const given = Object.entries(properties).filter(([, schema]) => 'default' in schema);
    const defaults = Object.fromEntries(given.map(([field, schema]) => [field, schema.default]));
    expect(given.length).toBeGreaterThan(1);
    const made = await admin.call(path, { method: 'POST', body: { ...defaults, ...needed } });
    const row = (await made.json()) as Record<string, unknown>;
    expect([made.status, row]).toEqual([201, expect.objectContaining({ ...defaults, ...needed })]);
    const id = encodeURIComponent(String(row['id'] ?? row['name']));
    const { id: _, ...replaced } = { id: '', ...needed };
    const answer = await admin.call(`${path}/${id}`, { method: 'PUT', body: replaced });
    expect([answer.status, await answer.json()]).toEqual([
      200,
      expect.objectContaining({ ...defaults, ...needed }),
    ]);
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
    expect(html.length).toBeLessThan(275_000);
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
