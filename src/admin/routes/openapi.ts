// The OpenAPI document of the admin route, and a page of it for people.

import * as z from 'zod';
import type { AdminApp } from '../app.ts';
import { addOperation } from '../operation.ts';

// Renders the OpenAPI document as one HTML page, without scripts or external files. It is generic, so everything in the
// document is on the page.

type Json = Readonly<Record<string, unknown>>;

const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const;

interface Operation {
  readonly method: string;
  readonly path: string;
  readonly about: Json;
}

function renderOpenApiPage({ info, paths = {}, components = {} }: OpenApiDocument): string {
  const groups = Object.entries(
    Object.groupBy(operationsOf(paths), ({ about }) => textOf(listOf(about.tags)[0])),
  );
  const schemas = Object.entries(objectOf(components.schemas));
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${html(info.title)}</title><style>${STYLE}</style></head><body>
<h1>${html(info.title)}</h1><p>${prose(info.description)}</p>
<nav>${groups.map(([name]) => `<a href="#${html(name)}">${html(name)}</a>`).join(' · ')} · <a href="#bodies">bodies</a></nav>
${groups.map(([name, operations = []]) => `<h2 id="${html(name)}">${html(name)}</h2>${operations.map(renderOperation).join('\n')}`).join('\n')}
<h2 id="bodies">Bodies</h2>
${schemas.map(([name, schema]) => renderSchema(name, objectOf(schema))).join('\n')}
</body></html>
`;
}

const operationsOf = (paths: Json): Operation[] =>
  Object.entries(paths).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const about = objectOf(item)[method];
      return about === undefined ? [] : [{ method: method.toUpperCase(), path, about: objectOf(about) }];
    }),
  );

function renderOperation({ method, path, about }: Operation): string {
  const body = contentOf(objectOf(about.requestBody));
  const example = EXAMPLES[`${method} ${path.replace('/_weir/admin', '')}`];
  return `<details><summary><b>${method}</b> <code>${html(path)}</code> ${html(textOf(about.summary))}</summary>
<p>${prose(about.description)}</p>
${renderTable('Parameters', listOf(about.parameters).map(objectOf).map(renderParameter))}
${body ? `<p>Body: ${typeOf(body)}</p>` : ''}
${renderTable('Answers', Object.entries(objectOf(about.responses)).map(renderResponse))}
${example === undefined ? '' : `<pre>${html(curl(method, path, example))}</pre>`}
</details>`;
}

const renderParameter = ({ name, in: place, required, schema, description }: Json): string[] => [
  `<code>${html(textOf(name))}</code>`,
  html(textOf(place)),
  typeOf(objectOf(schema)) + (required ? '' : ', optional'),
  prose(description),
];

function renderResponse([status, response]: [string, unknown]): string[] {
  const about = objectOf(response);
  const schema = contentOf(about);
  const headers = Object.keys(objectOf(about.headers)).map((name) => `<code>${html(name)}</code>`);
  return [html(status), prose(about.description), schema ? typeOf(schema) : '', headers.join(', ')];
}

function renderSchema(name: string, schema: Json): string {
  const required = listOf(schema.required);
  const fields = Object.entries(objectOf(schema.properties)).map(([field, value]) => {
    const about = objectOf(value);
    const left = required.includes(field)
      ? ''
      : 'default' in about
        ? `default ${json(about.default)}`
        : 'optional';
    return [`<code>${html(field)}</code>`, typeOf(about), left, prose(about.description)];
  });
  return `<h3 id="${html(name)}">${html(name)}</h3>${renderTable('', fields)}`;
}

function typeOf(schema: Json): string {
  const reference = textOf(schema.$ref).split('/').at(-1);
  if (reference) return `<a href="#${html(reference)}">${html(reference)}</a>`;
  if (Array.isArray(schema.enum)) return schema.enum.map(json).join(' | ');
  if (Array.isArray(schema.anyOf)) return schema.anyOf.map((one) => typeOf(objectOf(one))).join(' | ');
  const types = [schema.type].flat().map(textOf).filter(Boolean);
  const inner = types.includes('array') ? ` of ${typeOf(objectOf(schema.items))}` : '';
  return html(types.join(' | ')) + inner + rangeOf(schema);
}

function rangeOf({ minimum, maximum, maxLength, format }: Json): string {
  const parts = [
    minimum !== undefined && maximum !== undefined && `${minimum} to ${maximum}`,
    maxLength !== undefined && `at most ${maxLength} characters`,
    format,
  ];
  const said = parts.filter(Boolean).join(', ');
  return said && ` (${html(said)})`;
}

function renderTable(title: string, rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return '';
  const lines = rows.map((cells) => `<tr>${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`);
  return `<table>${title && `<caption>${title}</caption>`}${lines.join('')}</table>`;
}

const contentOf = ({ content }: Json): Json | undefined => {
  const [first] = Object.values(objectOf(content));
  return first === undefined ? undefined : objectOf(objectOf(first).schema);
};

/** Text of the document. Words in backticks are code. */
const prose = (value: unknown) => html(textOf(value)).replace(/`([^`]+)`/g, '<code>$1</code>');
const json = (value: unknown) => `<code>${html(JSON.stringify(value))}</code>`;
const html = (text: string) => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
const textOf = (value: unknown) => (typeof value === 'string' ? value : '');
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const objectOf = (value: unknown): Json =>
  value !== null && typeof value === 'object' ? Object.fromEntries(Object.entries(value)) : {};

const curl = (method: string, path: string, body: string) =>
  [
    `curl -X ${method} "$WEIR${path.replace('{id}', '$ID')}"`,
    '-H "Authorization: Bearer $ADMIN_TOKEN"',
    ...(body ? ["-H 'Content-Type: application/json'", `-d '${body}'`] : []),
  ].join(' \\\n  ');

const EXAMPLES: Readonly<Record<string, string>> = {
  'GET /rules': '',
  'POST /rules': '{"name": "logins", "resource": "/login", "limit": "5 / minute"}',
  'PATCH /rules/{id}': '{"enabled": false}',
  'POST /tiers': '{"name": "premium", "priceCents": 2900, "limits": {"calls": 10000, "exports": null}}',
  'POST /users': '{"id": "auth0|1234", "tier": "premium"}',
  'POST /keys': '{"name": "CI", "userId": "auth0|1234", "expiresAt": "2030-01-01T00:00:00Z"}',
  'POST /lists': '{"list": "deny", "kind": "ip", "value": "203.0.113.0/24", "reason": "scraper"}',
};

const STYLE = `
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}
body{max-width:60rem;margin:2rem auto;padding:0 1rem}
summary{cursor:pointer;padding:.2rem 0}summary b{display:inline-block;min-width:4.5rem}
table{border-collapse:collapse;margin:.5rem 0;width:100%}caption{text-align:left;font-weight:600}
td{border-top:1px solid #8884;padding:.2rem .6rem .2rem 0;vertical-align:top}
pre{background:#8882;padding:.8rem;overflow:auto}code{font-size:.9em}
details{border-left:3px solid #8884;padding-left:1rem;margin:.3rem 0}`;

export type OpenApiDocument = ReturnType<AdminApp['getOpenAPI31Document']>;

/** Called after all other groups. The document contains the routes that are registered when a client asks for it. */
export function addOpenApiRoutes(app: AdminApp): void {
  app.openAPIRegistry.registerComponent('securitySchemes', 'bearer', {
    type: 'http',
    scheme: 'bearer',
    description: 'An admin token.',
  });
  const group = 'documentation';
  addOperation(
    app,
    {
      id: 'getOpenApiDocument',
      call: 'GET /openapi.json',
      group,
      summary: 'This document',
      says: 'OpenAPI 3.1',
      answer: z.looseObject({ openapi: z.string() }),
    },
    () => Response.json(documentOf(app)),
  );
  const page = { description: 'A page', content: { 'text/html': { schema: z.string() } } };
  addOperation(
    app,
    {
      id: 'getApiPage',
      call: 'GET /docs',
      group,
      summary: 'This document, for people',
      answers: { 200: page },
    },
    () => {
      // Allows only the page's own style: no script can run, even if one gets into a description.
      const policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
      return new Response(renderOpenApiPage(documentOf(app)), {
        headers: { 'Content-Type': 'text/html; charset=utf-8', 'Content-Security-Policy': policy },
      });
    },
  );
}

export const documentOf = (app: AdminApp): OpenApiDocument =>
  app.getOpenAPI31Document({
    openapi: '3.1.0',
    info: { title: 'Weir admin', version: '1', description: DESCRIPTION },
    servers: [{ url: '/', description: 'The source of this document' }],
    security: [{ bearer: [] }],
  });

const DESCRIPTION = [
  'Rules, tiers, tenants, users, API keys, lists and routes of Weir, a rate limiter at the edge.',
  'A change is in force everywhere within a second.',
  'Errors are application/problem+json with a stable `code`; `errors` points at each bad field.',
].join(' ');
