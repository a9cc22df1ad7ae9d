// Exports and imports all rules, tiers and routes as one JSON document. A full export has everything, for a backup.

import { createRoute } from '@hono/zod-openapi';
import * as z from 'zod';
import { invalidBody, ProblemError } from '../../http/internal-problems.ts';
import type { AdminApp, AdminServices } from '../app.ts';
import { READ_ONLY } from '../auth.ts';
import {
  CALLER_KINDS,
  everythingAsText,
  importDocument,
  readStoredRows,
  toDocument,
  toStream,
} from '../import/document.ts';
import { type ImportResult, importRules } from '../import/import.ts';
import { IMPORT_MODES, type ImportPlan, previewImport } from '../import/plan.ts';
import { problemResponses } from '../problems.ts';
import { publishChange, tooLarge, versionHeader, warningsBeforehand } from '../publish-change.ts';

const exportRules = createRoute({
  operationId: 'exportRules',
  method: 'get',
  path: '/export',
  tags: ['import and export'],
  security: [{ bearer: [] }],
  summary: 'All rules, tiers and routes as one document; or everything, as a backup',
  request: {
    query: z.strictObject({
      everything: z
        .stringbool()
        .prefault('false')
        .describe('Also tenants, users, lists, and the hashes of keys. Needs a token of the role admin.'),
    }),
  },
  responses: {
    200: {
      description: 'In a stable order, without fields that have their defaults',
      content: { 'application/json': { schema: importDocument } },
    },
    ...problemResponses(400),
  },
});

const partChanges = z.record(z.string(), z.strictObject({ from: z.unknown(), to: z.unknown() }));

const partSummary = z.strictObject({
  created: z.array(z.string()).describe('The names of the items.'),
  updated: z.array(
    z.strictObject({
      name: z.string().describe('The value before the change.'),
      changes: partChanges,
    }),
  ),
  deleted: z.array(z.string()),
  unchanged: z.int(),
});

const callerCounts = z
  .strictObject({ created: z.int(), updated: z.int(), deleted: z.int(), unchanged: z.int() })
  .optional()
  .describe('The number of items, if the document has any.');

const summary = z
  .strictObject({
    dryRun: z.boolean(),
    basedOn: z
      .int()
      .describe(
        'The state that the document was compared with. In a document, it makes the import check for the same state.',
      ),
    tiers: partSummary,
    rules: partSummary,
    routes: partSummary,
    settings: z.strictObject({ changes: partChanges }),
    ...Object.fromEntries(CALLER_KINDS.map((kind) => [kind, callerCounts])),
    warnings: z.array(z.string()),
  })
  .meta({ id: 'ImportSummary' });

const importAll = createRoute({
  operationId: 'importRules',
  method: 'post',
  path: '/import',
  tags: ['import and export'],
  security: [{ bearer: [] }],
  summary: 'Import a document of rules, tiers and routes, or of everything, as a whole or not at all',
  request: {
    query: z.strictObject({
      mode: z
        .enum(IMPORT_MODES)
        .default('merge')
        .describe('merge keeps items that the document does not name; replace deletes them.'),
      dryRun: z.stringbool().prefault('false').describe('Only report what would change.'),
      force: z
        .stringbool()
        .prefault('false')
        .describe('Import even if there were changes since its basedOn.'),
    }),
    body: { required: true, content: { 'application/json': { schema: importDocument } } },
  },
  responses: {
    200: {
      description: 'What has changed, or would change',
      content: { 'application/json': { schema: summary } },
    },
    ...problemResponses(400, 409, 413, 415),
  },
});

export function addImportExportRoutes(app: AdminApp, services: AdminServices): void {
  app.openapi(exportRules, async (c) => {
    const asJson = { 'Content-Type': 'application/json' };
    if (c.req.valid('query').everything) {
      // Somebody who can write to a database can use a hash like the key itself.
      if (c.get('actor').role === 'read') throw new ProblemError(READ_ONLY);
      return c.body(toStream(everythingAsText(services.database)), 200, asJson) as never;
    }
    const document = toDocument(await readStoredRows(services.database));
    // Writes the document on many lines, because people keep it in git and compare versions.
    return c.body(`${JSON.stringify(document, null, 2)}\n`, 200, asJson) as never;
  });

  app.openapi(importAll, async (c) => {
    const document = c.req.valid('json');
    const { mode, dryRun, force } = c.req.valid('query');
    const actor = c.get('actor').name;
    const regions = services.regions.map(({ name }) => name);
    const { origins } = services;
    const how = { mode, regions, origins, dryRun, force, actor };
    const result = await importRules(services.database, { document, ...how });
    const { stored, plan, callers } = doneOrThrow(result);
    const published = dryRun
      ? warningsBeforehand(previewImport(stored, plan, services))
      : await publishChange(services, 'all');
    const { tiers, rules, routes, settings } = plan;
    const parts = {
      tiers: summarize(tiers),
      rules: summarize(rules),
      routes: summarize(routes),
      settings: { changes: { ...settings.changes } },
    };
    return c.json(
      { dryRun, basedOn: stored.basedOn, ...parts, ...callers, warnings: [...published.warnings] },
      200,
      versionHeader(published),
    );
  });
}

function summarize({ created, updated, deleted, unchanged }: ImportPlan['rules' | 'tiers' | 'routes']) {
  return {
    created: created.map(({ name }) => name),
    updated: updated.map(({ from, changes }) => ({ name: from.name, changes: { ...changes } })),
    deleted: deleted.map(({ name }) => name),
    unchanged,
  };
}

function doneOrThrow(result: ImportResult): Extract<ImportResult, { kind: 'done' }> {
  if (result.kind === 'invalid') throw invalidBody(result.plan.problems);
  if (result.kind === 'too-large') throw tooLarge(result.bytes);
  if (result.kind === 'changed-since')
    throw new ProblemError({
      status: 409,
      code: 'changed-since',
      title: 'Rules, tiers, routes or settings have changed since',
      detail: `They are at ${result.basedOn} now. With force=true the document is taken over nevertheless.`,
    });
  if (result.kind === 'tiers-in-use')
    throw new ProblemError({
      status: 409,
      code: 'still-in-use',
      title: 'Tiers that are not in the document are still in use',
      detail: `By users, tenants or keys: ${result.names.join(', ')}.`,
    });
  return result;
}
