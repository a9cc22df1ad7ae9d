// The Worker's entry: requests, and the cron run that brings the edge in line with Postgres.
import type { Bindings } from './bindings.ts';
import { ConfigError } from './config.ts';
import { problem } from './http/problem.ts';
import { isolateOf } from './isolate.ts';

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
    await isolateOf(env).runCron(scheduledTime);
  },
} satisfies ExportedHandler<Bindings>;
