// The smoke test of a deployment: `npm run smoke -- URL` asks for it and prints it.
import { createRoute } from '@hono/zod-openapi';
import * as z from 'zod';
import { problemResponses } from '../problems.ts';
import type { AdminApp, AdminServices } from '../services.ts';
import { STATES } from '../smoke/findings.ts';

const report = z
  .strictObject({
    ok: z.boolean().describe('Whether nothing failed. Warnings are not failures.'),
    servedFrom: z.string().optional().describe('The data centre of Cloudflare, by the code of its airport.'),
    findings: z.array(
      z.strictObject({
        part: z.string().describe('`redis eu`, `kv`, `postgres` or `page`.'),
        check: z.string(),
        state: z.enum(STATES),
        found: z.string(),
        advice: z.string().optional(),
      }),
    ),
  })
  .meta({ id: 'SmokeReport' });

const smoke = createRoute({
  operationId: 'smoke',
  method: 'post',
  path: '/smoke',
  tags: ['operations'],
  security: [{ bearer: [] }],
  summary: 'Test every part that Weir needs once: Redis in each region, its Lua and clock, KV and Postgres',
  responses: {
    200: {
      description: 'The findings. The status is always 200.',
      content: { 'application/json': { schema: report } },
    },
    ...problemResponses(413, 415),
  },
});

export function addSmokeRoutes(app: AdminApp, { smoke: run }: AdminServices): void {
  app.openapi(smoke, async (c) => {
    const findings = await run();
    const { colo } = ((c.req.raw as { cf?: unknown }).cf ?? {}) as { colo?: string };
    const ok = findings.every(({ state }) => state !== 'failed');
    return c.json({ ok, ...(colo !== undefined && { servedFrom: colo }), findings: [...findings] }, 200);
  });
}
