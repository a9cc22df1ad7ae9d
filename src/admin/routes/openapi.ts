// The OpenAPI document of the admin route, and a page of it for people.
import { createRoute, type RouteConfig } from '@hono/zod-openapi';
import * as z from 'zod';
import { renderOpenApiPage } from '../openapi-page.ts';
import { problemResponses } from '../problems.ts';
import type { AdminApp } from '../services.ts';

export type OpenApiDocument = ReturnType<AdminApp['getOpenAPI31Document']>;

/** Called after all other groups. The document contains the routes that are registered when a client asks for it. */
export function addOpenApiRoutes(app: AdminApp): void {
  app.openAPIRegistry.registerComponent('securitySchemes', 'bearer', {
    type: 'http',
    scheme: 'bearer',
    description: 'An admin token.',
  });
  app.openapi(documentRoute, () => Response.json(documentOf(app)));
  app.openapi(pageRoute, () => {
    // Allows only the page's own style: no script can run, even if one gets into a description.
    const policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
    return new Response(renderOpenApiPage(documentOf(app)), {
      headers: { 'Content-Type': 'text/html; charset=utf-8', 'Content-Security-Policy': policy },
    });
  });
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

const group = { tags: ['documentation'] };

const responses = (description: string, type: string, schema: z.ZodType): RouteConfig['responses'] => ({
  200: { description, content: { [type]: { schema } } },
  ...problemResponses(),
});

const documentRoute = createRoute({
  operationId: 'getOpenApiDocument',
  ...group,
  method: 'get',
  path: '/openapi.json',
  summary: 'This document',
  responses: responses('OpenAPI 3.1', 'application/json', z.looseObject({ openapi: z.string() })),
});

const pageRoute = createRoute({
  operationId: 'getApiPage',
  ...group,
  method: 'get',
  path: '/docs',
  summary: 'This document, for people',
  responses: responses('A page', 'text/html', z.string()),
});
