// Settings that apply to all rules together. They are one row, which always exists. The most important setting is the
// switch that turns enforcement into logging.

import { createRoute } from '@hono/zod-openapi';
import { eq } from 'drizzle-orm';
import * as z from 'zod';
import { SETTINGS_DEFAULTS } from '../../core/matching/snapshot.ts';
import { ProblemError } from '../../http/internal-problems.ts';
import type { Publication } from '../../rules/publishing/publish.ts';
import { SnapshotTooLarge } from '../../rules/publishing/snapshot-size.ts';
import { asActor, type Database } from '../../rules/tables/repository.ts';
import { ALL_RULES, type SettingsRow, settings } from '../../rules/tables/tables.ts';
import type { AdminApp, AdminServices } from '../app.ts';
import { changedSince } from '../collection/collection.ts';
import { allowedRevisions, toETag } from '../collection/revisions.ts';
import { postgresProblem, problemResponses } from '../problems.ts';
import { publishChange, versionHeader } from '../publish-change.ts';
import { settingsFields } from '../schemas.ts';
import type { AddRoutes } from './index.ts';

const shown = z
  .strictObject({ ...settingsFields, revision: z.int(), updatedAt: z.iso.datetime() })
  .meta({ id: 'Settings' });
const changed = shown.extend({ warnings: z.array(z.string()) });
const patch = z.strictObject(settingsFields).partial().meta({ id: 'SettingsPatch' });

const common = { path: '/settings', tags: ['settings'], security: [{ bearer: [] }] };

const getSettings = createRoute({
  operationId: 'getSettings',
  ...common,
  method: 'get',
  summary: 'Settings for all rules',
  responses: {
    200: { description: 'The settings', content: { 'application/json': { schema: shown } } },
    ...problemResponses(),
  },
});

const patchSettings = createRoute({
  operationId: 'patchSettings',
  ...common,
  method: 'patch',
  summary: 'Change settings; those that are not named stay',
  description:
    'In force everywhere within a second. With If-Match, only if nobody has changed the settings meanwhile.',
  request: { body: { required: true, content: { 'application/json': { schema: patch } } } },
  responses: {
    200: { description: 'Changed', content: { 'application/json': { schema: changed } } },
    ...problemResponses(400, 412, 413, 415),
  },
});

export const addSettingsRoutes: AddRoutes = (app, services) => {
  const { database } = services;

  app.openapi(getSettings, async (c) => {
    const row = await readSettings(database);
    return c.json(toShown(row), 200, { ETag: toETag(row.revision) });
  });

  app.openapi(patchSettings, async (c) => {
    const before = await readSettings(database);
    const revisions = allowedRevisions(c.req.raw);
    if (revisions && !revisions.includes(before.revision)) throw changedSince(before);
    const values = { ...toValues(before), ...c.req.valid('json') };
    const [, [row]] = await database.batch([
      asActor(database, c.var.actor.name),
      database
        .insert(settings)
        .values({ id: ALL_RULES, ...values })
        .onConflictDoUpdate({
          target: settings.id,
          set: values,
          ...(revisions && { setWhere: eq(settings.revision, before.revision) }),
        })
        .returning(),
    ]);
    if (!row) throw changedSince(before);
    const published = await publishChange(services, 'all');
    const body = { ...toShown(row), warnings: [...published.warnings] };
    return c.json(body, 200, { ETag: toETag(row.revision), ...versionHeader(published) });
  });
};

/** A migration creates the row. If somebody has deleted it, all settings have their defaults. */
async function readSettings(database: Database): Promise<SettingsRow> {
  const [row] = await database.select().from(settings).where(eq(settings.id, ALL_RULES));
  return row ?? { id: ALL_RULES, ...SETTINGS_DEFAULTS, revision: 0, createdAt: EPOCH, updatedAt: EPOCH };
}

const EPOCH = new Date(0);

const toValues = ({ enforcement, fileExtensions }: SettingsRow) => ({ enforcement, fileExtensions });

const toShown = (row: SettingsRow) => ({
  ...toValues(row),
  revision: row.revision,
  updatedAt: row.updatedAt.toISOString(),
});

// Publishing on demand: after a migration, or after a change by hand.

const publication = z
  .strictObject({
    version: z.string().describe('The version of the rules. The same rules have the same version.'),
    changed: z.boolean(),
    ruleCount: z.int(),
    rejected: z
      .array(z.strictObject({ id: z.string(), name: z.string(), problems: z.array(z.string()) }))
      .describe('Rows that were left out, and why.'),
    warnings: z.array(z.strictObject({ ruleIds: z.array(z.string()), message: z.string() })),
    regions: z.array(
      z.strictObject({
        name: z.string(),
        announced: z.boolean(),
        problem: z.string().optional().describe('The message of its Redis, if it cannot run the script.'),
      }),
    ),
  })
  .meta({ id: 'Publication' });

const publish = createRoute({
  operationId: 'publish',
  method: 'post',
  path: '/publish',
  tags: ['operations'],
  security: [{ bearer: [] }],
  summary: 'Publish the rules that are in Postgres',
  responses: {
    200: { description: 'Published', content: { 'application/json': { schema: publication } } },
    ...problemResponses(413, 415),
  },
});

export function addPublishRoutes(app: AdminApp, services: AdminServices): void {
  app.openapi(publish, async (c) => c.json(toPublished(await publishOrThrow(services)), 200));
}

async function publishOrThrow({ publish, log }: AdminServices): Promise<Publication> {
  try {
    return await publish({ again: true });
  } catch (error) {
    log.error('publish-failed', error);
    throw new ProblemError({
      status: 503,
      code: 'publish-failed',
      title: 'The rules could not be published',
      detail: `${reasonOf(error)} The rules that were in force stay in force.`,
    });
  }
}

const toPublished = ({ rejected, warnings, regions, ...publication }: Publication) => ({
  ...publication,
  rejected: rejected.map((row) => ({ ...row, problems: [...row.problems] })),
  warnings: warnings.map(({ ruleIds, message }) => ({ ruleIds: [...ruleIds], message })),
  regions: [...regions],
});

/** The likeliest mistake of a first deployment gets a message of its own. */
function reasonOf(error: unknown): string {
  if (error instanceof SnapshotTooLarge) return `${error.message}.`;
  const { code, title, detail } = postgresProblem(error);
  if (code === 'tables-missing' || code === 'tables-outdated') return `${title}. ${detail ?? ''}`;
  return 'Postgres or KV did not answer.';
}
