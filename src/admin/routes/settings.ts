// Settings that apply to all rules together. They are one row, which always exists. The most important setting is the
// switch that turns enforcement into logging.

import { eq } from 'drizzle-orm';
import * as z from 'zod';
import { SETTINGS_DEFAULTS } from '../../core/matching/snapshot.ts';
import { ProblemError } from '../../http/internal-requests.ts';
import type { Publication } from '../../rules/publishing/publish.ts';
import { SnapshotTooLarge } from '../../rules/publishing/snapshot-size.ts';
import { asActor, type Database } from '../../rules/tables/repository.ts';
import { ALL_RULES, type SettingsRow, settings } from '../../rules/tables/tables.ts';
import type { AdminApp, AdminServices } from '../app.ts';
import { allowedRevisions, changedSince, toETag } from '../collection/changes.ts';
import { addOperation } from '../operation.ts';
import { postgresProblem } from '../problems.ts';
import { publishChange, versionHeader } from '../publish-change.ts';
import { settingsFields } from '../schemas.ts';

const shown = z
  .strictObject({ ...settingsFields, revision: z.int(), updatedAt: z.iso.datetime() })
  .meta({ id: 'Settings' });

export function addSettingsRoutes(app: AdminApp, services: AdminServices): void {
  const { database } = services;

  addOperation(
    app,
    {
      id: 'getSettings',
      call: 'GET /settings',
      group: 'settings',
      summary: 'Settings for all rules',
      says: 'The settings',
      answer: shown,
    },
    async ({ headers }) => {
      const row = await readSettings(database);
      Object.assign(headers, { ETag: toETag(row.revision) });
      return toShown(row);
    },
  );

  addOperation(
    app,
    {
      id: 'patchSettings',
      call: 'PATCH /settings',
      group: 'settings',
      summary: 'Change settings; those that are not named stay',
      description:
        'In force everywhere within a second. With If-Match, only if nobody has changed the settings meanwhile.',
      body: z.strictObject(settingsFields).partial().meta({ id: 'SettingsPatch' }),
      says: 'Changed',
      answer: shown.extend({ warnings: z.array(z.string()) }),
      problems: [412],
    },
    async ({ body, actor, request, headers }) => {
      const before = await readSettings(database);
      const revisions = allowedRevisions(request);
      if (revisions && !revisions.includes(before.revision)) throw changedSince(before);
      const values = { ...toValues(before), ...body };
      const [, [row]] = await database.batch([
        asActor(database, actor.name),
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
      Object.assign(headers, { ETag: toETag(row.revision) }, versionHeader(published));
      return { ...toShown(row), warnings: published.warnings };
    },
  );
}

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

export function addPublishRoutes(app: AdminApp, services: AdminServices): void {
  addOperation(
    app,
    {
      id: 'publish',
      call: 'POST /publish',
      group: 'operations',
      summary: 'Publish the rules that are in Postgres',
      says: 'Published',
      answer: publication,
    },
    () => publishOrThrow(services),
  );
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

/** The likeliest mistake of a first deployment gets a message of its own. */
function reasonOf(error: unknown): string {
  if (error instanceof SnapshotTooLarge) return `${error.message}.`;
  const { code, title, detail } = postgresProblem(error);
  if (code === 'tables-missing' || code === 'tables-outdated') return `${title}. ${detail ?? ''}`;
  return 'Postgres or KV did not answer.';
}
