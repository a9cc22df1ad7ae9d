// The table of routes: the origin for each host and prefix. Triggers keep `revision` and the history, as for all tables
// that people edit.
import { sql } from 'drizzle-orm';
import { boolean, check, integer, jsonb, text, uniqueIndex, uuid } from 'drizzle-orm/pg-core';
import { ROUTE_DEFAULTS } from '../../core/matching/origin-route.ts';
import { kept, matches, weir, within } from './columns.ts';

export const LONGEST_TIMEOUT_MS = 900_000;
const LABEL = '[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?';

export const routes = weir.table(
  'routes',
  {
    id: uuid().primaryKey().defaultRandom(),
    name: text().notNull().unique().default(sql`'route-' || left(gen_random_uuid()::text, 8)`),
    host: text().notNull().default(ROUTE_DEFAULTS.host),
    prefix: text().notNull().default(ROUTE_DEFAULTS.prefix),
    origin: text().notNull(),
    stripPrefix: text(),
    timeoutMs: integer(),
    hostHeader: text(),
    headers: jsonb().$type<Readonly<Record<string, string>>>().notNull().default({}),
    enabled: boolean().notNull().default(true),
    ...kept,
  },
  (table) => [
    check('routes_name_is_short', sql`length(${table.name}) between 1 and 128`),
    check(
      'routes_name_has_no_control_characters',
      sql`not ${matches(table.name, '[\\u0001-\\u001f\\u007f-\\u009f\\u2028\\u2029]')}`,
    ),
    check(
      'routes_host_is_a_host',
      sql`${table.host} = '*' or length(${table.host}) <= 253 and ${matches(table.host, `^(\\*\\.)?${LABEL}(\\.${LABEL})*$`)}`,
    ),
    check(
      'routes_prefix_is_a_path',
      sql`${table.prefix} = '/' or length(${table.prefix}) <= 1024 and ${matches(table.prefix, '^(/[^/?#*{}[:upper:][:space:]]+)+$')}`,
    ),
    check(
      'routes_origin_is_known',
      sql`length(${table.origin}) <= 2048 and ${matches(table.origin, '^(pass|service:[A-Za-z_][A-Za-z0-9_]{0,63}|https?://[^[:space:]?#@]+)$')}`,
    ),
    check(
      'routes_strip_prefix_is_of_prefix',
      sql`${table.stripPrefix} is null or starts_with(${table.prefix} || '/', ${table.stripPrefix} || '/') and ${matches(table.stripPrefix, '^/.')}`,
    ),
    check('routes_timeout_is_positive', within(table.timeoutMs, 1, LONGEST_TIMEOUT_MS)),
    check('routes_host_header_is_a_host', matches(table.hostHeader, '^[A-Za-z0-9._-]{1,253}$')),
    check(
      'routes_headers_are_texts',
      sql`jsonb_typeof(${table.headers}) = 'object' and not jsonb_path_exists(${table.headers}, '$.* ? (@.type() != "string")')`,
    ),
    // If two enabled routes had the same host and prefix, it would be unclear which one applies.
    uniqueIndex('routes_once').on(table.host, table.prefix).where(sql`${table.enabled}`),
  ],
);

export type RouteRow = typeof routes.$inferSelect;
