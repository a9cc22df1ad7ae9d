// Publishing on demand: after a migration, or after a change by hand.
import { createRoute } from '@hono/zod-openapi';
import * as z from 'zod';
import type { Publication } from '../../rules/publishing/publish.ts';
import { SnapshotTooLarge } from '../../rules/publishing/snapshot-room.ts';
import { postgresProblem } from '../postgres-problems.ts';
import { AdminError, problemResponses } from '../problems.ts';
import type { AdminApp, AdminServices } from '../services.ts';

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
    throw new AdminError({
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
