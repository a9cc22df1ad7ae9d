import { defineConfig } from 'drizzle-kit';

export default defineConfig({
  dialect: 'postgresql',
  schema: ['./src/rules/tables/tables.ts', './src/telemetry/tables.ts'],
  out: './drizzle',
  casing: 'snake_case',
});
