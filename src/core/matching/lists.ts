// The allow and deny lists, compiled: one look-up for each kind of id, and one for each length of prefix.
import type { Caller } from './caller.ts';
import { type Ip, keyOf, masked, parseIp, parseIpRange } from './ip.ts';
import type { ListEntry } from './rule.ts';

export type ListName = ListEntry['list'];

/** When each entry expires, by the value of the entry. */
type Expiries = Map<string, number>;

interface List {
  readonly users: Expiries;
  readonly apiKeys: Expiries;
  readonly tenants: Expiries;
  /** By the length of the prefix, and then by address. */
  readonly ranges: Map<number, Expiries>;
}

/** Whether a caller is on a list at that moment; the deny list comes first. */
export function compileLists(
  entries: readonly ListEntry[],
): (caller: Caller, nowMs: number) => ListName | undefined {
  const deny = compileList(entries.filter(({ list }) => list === 'deny'));
  const allow = compileList(entries.filter(({ list }) => list === 'allow'));
  if (entries.length === 0) return () => undefined;
  const hasRanges = deny.ranges.size + allow.ranges.size > 0;
  return (caller, nowMs) => {
    const ip = hasRanges ? parseIp(caller.address) : undefined;
    if (isOn(deny, caller, ip, nowMs)) return 'deny';
    return isOn(allow, caller, ip, nowMs) ? 'allow' : undefined;
  };
}

function compileList(entries: readonly ListEntry[]): List {
  const list: List = { users: new Map(), apiKeys: new Map(), tenants: new Map(), ranges: new Map() };
  for (const { kind, value, expiresAtMs } of entries) {
    const untilMs = expiresAtMs ?? Number.POSITIVE_INFINITY;
    if (kind === 'ip') addRange(list.ranges, value, untilMs);
    else add(idsOf(list, kind), value, untilMs);
  }
  return list;
}

function idsOf(list: List, kind: Exclude<ListEntry['kind'], 'ip'>): Expiries {
  switch (kind) {
    case 'user':
      return list.users;
    case 'apiKey':
      return list.apiKeys;
    case 'tenant':
      return list.tenants;
  }
}

function addRange(ranges: List['ranges'], text: string, untilMs: number): void {
  const range = parseIpRange(text);
  if (!range) return;
  const sameLength = ranges.get(range.prefixLength) ?? new Map<string, number>();
  ranges.set(range.prefixLength, sameLength);
  add(sameLength, keyOf(range), untilMs);
}

/** If two entries name the same value, the one that lasts longer counts. */
function add(expiries: Expiries, value: string, untilMs: number): void {
  expiries.set(value, Math.max(untilMs, expiries.get(value) ?? untilMs));
}

function isOn(list: List, caller: Caller, ip: Ip | undefined, nowMs: number): boolean {
  return (
    lasts(list.users, caller.userId, nowMs) ||
    lasts(list.apiKeys, caller.apiKeyId, nowMs) ||
    lasts(list.tenants, caller.tenantId, nowMs) ||
    (ip !== undefined && isInRange(list.ranges, ip, nowMs))
  );
}

function lasts(expiries: Expiries, value: string | undefined, nowMs: number): boolean {
  return value !== undefined && nowMs < (expiries.get(value) ?? Number.NEGATIVE_INFINITY);
}

// The keys of IPv4 and IPv6 differ in length, so prefixes of both can be in one map.
function isInRange(ranges: List['ranges'], ip: Ip, nowMs: number): boolean {
  for (const [prefixLength, expiries] of ranges)
    if (lasts(expiries, keyOf(masked(ip, prefixLength)), nowMs)) return true;
  return false;
}
