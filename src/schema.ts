// The tables of Weir, for a Drizzle of one's own: `weir/schema`. All of them are in the schema `weir` of Postgres.
export * from './rules/tables/schema.ts';
export { alerts, events, recordBatches, usage } from './telemetry/tables.ts';
