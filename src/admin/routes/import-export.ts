// Exports and imports all rules, tiers and routes as one JSON document. A full export has everything, for a backup.
import * as z from 'zod';
import { ProblemError } from '../../http/internal-requests.ts';
import type { AdminApp, AdminServices } from '../app.ts';
import { READ_ONLY } from '../auth.ts';
import { CALLERS, PLANNED } from '../collections.ts';
import { everythingAsText, importDocument, readStoredRows, toDocument } from '../import/document.ts';
import { importRules } from '../import/import.ts';
import { type CollectionPlan, IMPORT_MODES, previewImport } from '../import/plan.ts';
import { addOperation, jsonAnswer } from '../operation.ts';
import { publishChange, versionHeader, warningsBeforehand } from '../publish-change.ts';

const changes = z.record(z.string(), z.strictObject({ from: z.unknown(), to: z.unknown() }));

const collectionSummary = z.strictObject({
  created: z.array(z.string()).describe('The names of the items.'),
  updated: z.array(z.strictObject({ name: z.string().describe('The value before the change.'), changes })),
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
    settings: z.strictObject({ changes }),
    ...Object.fromEntries(PLANNED.map(({ path }) => [path, collectionSummary])),
    ...Object.fromEntries(CALLERS.map(({ path }) => [path, callerCounts])),
    warnings: z.array(z.string()),
  })
  .meta({ id: 'ImportSummary' });

const group = 'import and export';

export function addImportExportRoutes(app: AdminApp, services: AdminServices): void {
  addOperation(
    app,
    {
      id: 'exportRules',
      call: 'GET /export',
      group,
      summary: 'All rules, tiers and routes as one document; or everything, as a backup',
      query: z.strictObject({
        everything: z
          .stringbool()
          .prefault('false')
          .describe('Also tenants, users, lists, and the hashes of keys. Needs a token of the role admin.'),
      }),
      answers: {
        200: jsonAnswer('In a stable order, without fields that have their defaults', importDocument),
      },
    },
    async ({ query, actor }) => {
      const headers = { 'Content-Type': 'application/json' };
      if (query.everything) {
        // Somebody who can write to a database can use a hash like the key itself.
        if (actor.role === 'read') throw new ProblemError(READ_ONLY);
        return new Response(toStream(everythingAsText(services.database)), { headers });
      }
      const document = toDocument(await readStoredRows(services.database));
      // Writes the document on many lines, because people keep it in git and compare versions.
      return new Response(`${JSON.stringify(document, null, 2)}\n`, { headers });
    },
  );

  addOperation(
    app,
    {
      id: 'importRules',
      call: 'POST /import',
      group,
      summary: 'Import a document of rules, tiers and routes, or of everything, as a whole or not at all',
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
      body: importDocument,
      // Large enough for 10,000 rules.
      mostMebibytes: 10,
      says: 'Imported, or what an import would change',
      answer: summary,
      problems: [409],
    },
    async ({ query, body: document, actor, headers }) => {
      const request = { document, ...query, deployment: services, actor: actor.name };
      const { basedOn, plan, callers } = await importRules(services.database, request);
      const published = query.dryRun
        ? warningsBeforehand(await previewImport(plan, document, services))
        : await publishChange(services, 'all');
      Object.assign(headers, versionHeader(published));
      return {
        dryRun: query.dryRun,
        basedOn,
        ...Object.fromEntries(plan.collections.map((one) => [one.collection.path, summarize(one)])),
        settings: { changes: plan.settings.changes },
        ...callers,
        warnings: published.warnings,
      };
    },
  );
}

const nameOf = ({ name }: Readonly<Record<string, unknown>>) => String(name);

const summarize = ({ created, updated, deleted, unchanged }: CollectionPlan) => ({
  created: created.map(nameOf),
  updated: updated.map(({ from, changes }) => ({ name: nameOf(from), changes })),
  deleted: deleted.map(nameOf),
  unchanged,
});

function toStream(texts: AsyncGenerator<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    async pull(controller) {
      const { value, done } = await texts.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(value));
    },
  });
}
