// The Worker's entry: requests, and the cron run that brings the edge in line with Postgres.
import type { Bindings } from './bindings.ts';
import { ConfigError } from './config.ts';
import { type App, createApp } from './http/app.ts';
import { problem } from './http/problem.ts';
import { createServices } from './services.ts';

const apps = new WeakMap<Bindings, App>();

function appOf(env: Bindings): App {
  const known = apps.get(env);
  if (known) return known;
  const app = createApp(createServices(env));
  apps.set(env, app);
  return app;
}

export default {
  async fetch(request, env, context) {
    try {
      return await appOf(env).fetch(request, context);
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

  async scheduled(_event, env) {
    const { version, changed, ruleCount, rejected } = await createServices(env).publish();
    if (changed) console.log(JSON.stringify({ event: 'published', version, ruleCount }));
    for (const row of rejected) console.warn(JSON.stringify({ event: 'rule-rejected', ...row }));
  },
} satisfies ExportedHandler<Bindings>;
