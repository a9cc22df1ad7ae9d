// The tables of Weir for use with your own Drizzle: `weir/schema`. All of them are in the Postgres schema `weir`.
export * from './rules/tables/tables.ts';
export { alerts, events, recordBatches, usage } from './telemetry/tables.ts';
