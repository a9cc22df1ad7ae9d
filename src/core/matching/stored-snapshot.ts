// A snapshot as text, without the defaults of rules. Its version is its digest, so damaged text is never used as rules.
import { digest, toHex } from '../digest.ts';
import { type FlatRule, formatFlatRule, parseFlatRule } from './flat-rule.ts';
import { compileSnapshot, type Snapshot, type SnapshotContent } from './snapshot.ts';

/**
 * Raised when older Workers cannot read what newer ones write. Since 2, rules may have several limits. Since 3, they
 * may count by several parts and name hosts.
 */
const FORMAT = 3;
/** For snapshots with calendars or rules that multiply. Older Workers can still read the others. */
const FORMAT_4 = 4;
/** For snapshots in which rules name tenants, are for every scope, or take limits of callers other than their tier's. */
const FORMAT_5 = 5;
/** The formats that this Worker can read. Each includes the ones before it. */
const READABLE: readonly number[] = [1, 2, FORMAT, FORMAT_4, FORMAT_5];

export const versionOf = async (text: string): Promise<string> =>
  toHex((await digest('SHA-256', text)).slice(0, 8));

export const encodeSnapshot = ({ rules, ...others }: SnapshotContent): string =>
  joinSnapshot({ ...others, rules: rules.map(formatFlatRule) });

/** Joins encoded rules. The publisher keeps the texts of unchanged rules. */
export function joinSnapshot({ rules, ...content }: EncodedContent): string {
  const { tiers, tenantLimits, lists, split, routes, settings, calendars, off } = content;
  const rest = JSON.stringify({ tiers, tenantLimits, lists, split, routes, settings, calendars, off });
  const format =
    tenantLimits !== undefined || rules.some(needsFormat5)
      ? FORMAT_5
      : calendars !== undefined || rules.some((text) => text.includes(MULTIPLYING))
        ? FORMAT_4
        : FORMAT;
  return `{"format":${format},"rules":[${rules.join(',')}],${rest.slice(1)}`;
}

/** Every encoded rule that multiplies contains this text. */
const MULTIPLYING = '"action":"multiply"';
/** Every encoded rule that names tenants, is for every scope, or takes a limit of a claim contains one of these. */
const SINCE_5 = ['"tenants":[', '"scope":"all"', '"limitClaim":"'];
const needsFormat5 = (text: string) => SINCE_5.some((part) => text.includes(part));

export interface EncodedContent extends Omit<SnapshotContent, 'rules'> {
  readonly rules: readonly string[];
}

/** Undefined if the text does not match the version, or has a newer format. */
export async function decodeSnapshot(version: string, text: string): Promise<Snapshot | undefined> {
  if ((await versionOf(text)) !== version) return undefined;
  const { format, ...content } = JSON.parse(text) as StoredSnapshot;
  if (!READABLE.includes(format)) return undefined;
  return compileSnapshot(version, { ...content, rules: content.rules.map(parseFlatRule) });
}

interface StoredSnapshot extends Omit<SnapshotContent, 'rules'> {
  readonly format: number;
  readonly rules: readonly Partial<FlatRule>[];
}
