// The Worker's entry: requests, and the cron run that brings the edge in line with Postgres.
import type { Bindings } from './bindings.ts';
import { ConfigError } from './config.ts';
import { type App, createApp } from './http/app.ts';
import { problem } from './http/problem.ts';
import { publish, sweepPublished } from './rules/publish.ts';
import { createParts, type Parts } from './services.ts';

interface Isolate extends Parts {
  readonly app: App;
}

const isolates = new WeakMap<Bindings, Isolate>();

function isolateOf(env: Bindings): Isolate {
  const known = isolates.get(env);
  if (known) return known;
  const parts = createParts(env);
  const isolate = { ...parts, app: createApp(parts.services) };
  isolates.set(env, isolate);
  return isolate;
}

export default {
  async fetch(request, env, context) {
    try {
      return await isolateOf(env).app.fetch(request, context);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      console.error(error.message);
      return problem({
        status: 500,
        code: 'bad-config',
        title: 'Weir is not configured',
        problems: error.problems,
      });
    }
  },

  async scheduled({ scheduledTime }, env) {
    const { publishing } = isolateOf(env);
    const { version, changed, ruleCount, rejected } = await publish(publishing);
    if (changed) console.log(JSON.stringify({ event: 'published', version, ruleCount }));
    for (const row of rejected) console.warn(JSON.stringify({ event: 'rule-rejected', ...row }));
    if (new Date(scheduledTime).getUTCMinutes() === 0) await sweepPublished(publishing);
  },
} satisfies ExportedHandler<Bindings>;
