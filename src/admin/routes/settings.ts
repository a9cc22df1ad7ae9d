// Settings that apply to all rules together. They are one row, which always exists. The most important setting is the
// switch that turns enforcement into logging.
import { createRoute } from '@hono/zod-openapi';
import { eq } from 'drizzle-orm';
import * as z from 'zod';
import { SETTINGS_DEFAULTS } from '../../core/matching/settings.ts';
import type { Database } from '../../rules/tables/database.ts';
import { asActor } from '../../rules/tables/repository.ts';
import { ALL_RULES, type SettingsRow, settings } from '../../rules/tables/settings-table.ts';
import { changedSince } from '../collection/answers.ts';
import { allowedRevisions, toETag } from '../collection/etags.ts';
import { problemResponses } from '../problems.ts';
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
