// Sessions of the page that ended by logging out. Weir keeps a row until the session would have ended by itself.
import { index, text } from 'drizzle-orm/pg-core';
import { moment, weir } from './columns.ts';

export const endedSessions = weir.table(
  'ended_sessions',
  { id: text().primaryKey(), expiresAt: moment().notNull() },
  (table) => [index('ended_sessions_expires_at').on(table.expiresAt)],
);
