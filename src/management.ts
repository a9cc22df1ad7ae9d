// The admin route and the cron run. Loaded when one of them is first called: the gateway never pays for it.
import { createAdminApp } from './admin/app.ts';
import { createGate } from './admin/auth.ts';
import type { AdminServices } from './admin/services.ts';
import { runCron } from './cron.ts';
import type { Services } from './http/services.ts';
import { type PublishOptions, publish } from './rules/publishing/publish.ts';
import { createRuleReader } from './rules/publishing/rule-reader.ts';
import { createDatabase, type DatabaseOptions } from './rules/tables/database.ts';

export interface ManagementOptions {
  readonly postgres: DatabaseOptions;
  readonly admin: Omit<AdminServices, 'database' | 'publish'>;
  readonly publishing: Omit<PublishOptions, 'database' | 'reader'>;
  /** Postgres is asked for changes every so many minutes. */
  readonly databaseCheckMinutes: number;
}

export interface Management extends Pick<Services, 'admin' | 'adminRefusal'> {
  runCron(scheduledTime: number): Promise<void>;
}

export function createManagement({ databaseCheckMinutes, ...options }: ManagementOptions): Management {
  const database = createDatabase(options.postgres);
  const publishing = { ...options.publishing, database, reader: createRuleReader(database) };
  const services = {
    ...options.admin,
    database,
    publish: (how) => publish(publishing, how),
  } satisfies AdminServices;
  const gate = createGate(services);
  const app = createAdminApp(services, gate);
  return {
    admin(request, context) {
      const answer = Promise.resolve(app.fetch(request, {}, context));
      // A client that leaves after its change was saved must not keep it from being published.
      context.waitUntil(answer.catch(() => {}));
      return answer;
    },
    async adminRefusal(request) {
      const entry = await gate(request);
      return entry instanceof Response ? entry : undefined;
    },
    runCron: (scheduledTime) => runCron({ publishing, databaseCheckMinutes }, scheduledTime),
  };
}
