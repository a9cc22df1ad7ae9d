// How large a snapshot may be, and how many bytes each row takes. The admin route refuses to save a row that does not
// fit, because nobody would see an error at publication.

import type { Values } from '../../authoring/bodies.ts';
import { ruleFields } from '../../authoring/rule-schema.ts';
import { formatFlat } from '../../core/matching/flat-rule.ts';
import type { Database } from '../tables/repository.ts';
import { lastPublication } from '../tables/tables.ts';

const MEBIBYTE = 1024 * 1024;
/** For a snapshot. KV takes 25 MiB in one value, but Upstash 10 MB in one request, in which JSON is quoted again. */
const MAX_BYTES = 8 * MEBIBYTE;
/** For saving. Less, because several people who save at the same moment do not see each other's rows. */
export const MAX_SAVED_BYTES = 7 * MEBIBYTE;

/** The rules that are in force stay in force. */
export class SnapshotTooLarge extends Error {
  constructor(bytes: number) {
    super(
      `All rules, tiers and lists together take ${inMebibytes(bytes)}, and at most ${inMebibytes(MAX_BYTES)} can be published`,
    );
    this.name = 'SnapshotTooLarge';
  }
}

export function expectPublishable(bytes: number): void {
  if (bytes > MAX_BYTES) throw new SnapshotTooLarge(bytes);
}

export const inMebibytes = (bytes: number) => `${Number((bytes / MEBIBYTE).toFixed(2))} MiB`;

export const byteLength = (text: string) => new TextEncoder().encode(text).length;

/** The size of the last publication; 0 if there was none. */
export async function readPublishedBytes(database: Database): Promise<number> {
  const [row] = await database.select({ bytes: lastPublication.bytes }).from(lastPublication);
  return row?.bytes ?? 0;
}

/** The most bytes that Weir adds to a written rule, with the comma after it. */
const ADDED_TO_RULE = byteLength(
  `,"id":"${'x'.repeat(36)}","ordinal":2147483647,"counterId":"${'x'.repeat(8)}",`,
);
/** For each of several limits: in quotes, with its comma and its part of the field's name. */
const BYTES_OF_COUNTER_ID = 'xxxxxxxx'.length + 3 + '"counterIds":[]'.length;
const RULE_FIELDS = Object.keys(ruleFields.shape).filter((field) => field !== 'enabled');

/** 0 if the rule is switched off. */
export function bytesOfRule(rule: Values): number {
  if (rule.enabled === false) return 0;
  const said = RULE_FIELDS.filter((field) => rule[field] != null).map((field) => [field, rule[field]]);
  const counters = Array.isArray(rule.limits) ? rule.limits.length * BYTES_OF_COUNTER_ID : 0;
  return byteLength(formatFlat(Object.fromEntries(said))) + ADDED_TO_RULE + counters;
}

export const bytesOfTier = ({ name, limits, isDefault }: Values): number =>
  byteLength(JSON.stringify({ name, limits, isDefault })) + 1;

/** 0 without limits of its own. */
export const bytesOfTenant = ({ id, limits }: Values): number =>
  limits == null || Object.keys(limits).length === 0
    ? 0
    : byteLength(JSON.stringify({ [String(id)]: limits }));

/** 0 if the route is switched off. */
export const bytesOfRoute = ({
  enabled,
  name,
  host,
  resource,
  origin,
  headers,
  ...route
}: Values): number => {
  if (enabled === false) return 0;
  const { stripPrefix = null, timeoutMs = null, hostHeader = null } = route;
  const said = {
    id: 'x'.repeat(36),
    name,
    host,
    prefix: resource,
    origin,
    stripPrefix,
    timeoutMs,
    hostHeader,
    headers,
  };
  return byteLength(JSON.stringify(said)) + 1;
};

export const bytesOfListEntry = ({ list, kind, value, expiresAt }: Values): number =>
  byteLength(JSON.stringify({ list, kind, value, expiresAtMs: expiresAt ? 1e12 : null })) + 1;
