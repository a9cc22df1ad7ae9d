// Once a minute: what is in Postgres is made the rules in force, however it came there.

import { publish } from './rules/publish.ts';
import type { Parts } from './services.ts';

export async function runCron({ publishing }: Parts, scheduledTime: number): Promise<void> {
  const isNewHour = new Date(scheduledTime).getUTCMinutes() === 0;
  const { version, changed, ruleCount, rejected } = await publish(publishing, { again: isNewHour });
  if (changed) console.log(JSON.stringify({ event: 'published', version, ruleCount }));
  for (const row of rejected) console.warn(JSON.stringify({ event: 'rule-rejected', ...row }));
}
