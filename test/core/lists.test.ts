import { BlockList } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Caller } from '../../src/core/matching/caller.ts';
import { compileLists } from '../../src/core/matching/lists.ts';
import type { ListEntry } from '../../src/core/matching/rule.ts';
import { rounds } from '../rounds.ts';

const entry = (fields: Partial<ListEntry>): ListEntry => ({
  list: 'deny',
  kind: 'ip',
  value: '192.0.2.1',
  expiresAtMs: null,
  ...fields,
});
const caller = (fields: Partial<Caller>): Caller => ({ ip: '192.0.2.1', address: '192.0.2.1', ...fields });
const ask = (entries: ListEntry[], fields: Partial<Caller> = {}, nowMs = 0) =>
  compileLists(entries)(caller(fields), nowMs);

describe('the lists', () => {
  it('match no caller while they are empty', () => expect(ask([])).toBeUndefined());

  it('find addresses, ranges, keys, users and tenants', () => {
    expect(ask([entry({})])).toBe('deny');
    expect(ask([entry({ value: '192.0.0.0/16' })])).toBe('deny');
    expect(ask([entry({ value: '192.1.0.0/16' })])).toBeUndefined();
    expect(ask([entry({ value: '::ffff:192.0.2.0/120' })])).toBe('deny');
    expect(ask([entry({ list: 'allow', kind: 'apiKey', value: 'k' })], { apiKeyId: 'k' })).toBe('allow');
    expect(ask([entry({ list: 'allow', kind: 'user', value: 'u' })], { userId: 'u' })).toBe('allow');
    expect(ask([entry({ list: 'allow', kind: 'tenant', value: 't' })], { tenantId: 't' })).toBe('allow');
  });

  it('do not confuse ids of different kinds', () => {
    const entries = [entry({ kind: 'apiKey', value: 'x' }), entry({ kind: 'tenant', value: 'x' })];
    expect(ask(entries, { userId: 'x' })).toBeUndefined();
    expect(ask([entry({ kind: 'user', value: '192.0.2.1' })])).toBeUndefined();
  });

  it('compare the whole address, not the prefix that rules count by', () => {
    const entries = [entry({ value: '2001:db8::5' })];
    expect(ask(entries, { ip: '2001:db8::/64', address: '2001:db8::5' })).toBe('deny');
    expect(ask(entries, { ip: '2001:db8::/64', address: '2001:db8::6' })).toBeUndefined();
  });

  it('prefer deny to allow', () => {
    const entries = [entry({ list: 'allow', kind: 'user', value: 'u' }), entry({ value: '192.0.2.0/24' })];
    expect(ask(entries, { userId: 'u' })).toBe('deny');
    expect(ask(entries.toReversed(), { userId: 'u' })).toBe('deny');
  });

  it('forget an entry at the millisecond it expires', () => {
    const entries = [entry({ expiresAtMs: 1000 }), entry({ list: 'allow', value: '192.0.2.0/24' })];
    expect(ask(entries, {}, 999)).toBe('deny');
    expect(ask(entries, {}, 1000)).toBe('allow');
  });

  it.each([
    [1000, 2000],
    [2000, 1000],
    [null, 1000],
    [1000, null],
  ])('use the entry that lasts longer: %s and %s', (first, second) => {
    const entries = [
      entry({ value: '10.0.0.0/8', expiresAtMs: first }),
      entry({ value: '10.9.9.9/8', expiresAtMs: second }),
    ];
    const asked = { address: '10.1.1.1' };
    expect(ask(entries, asked, 1999)).toBe('deny');
    expect(ask(entries, asked, 2000)).toBe([first, second].includes(null) ? 'deny' : undefined);
  });

  it('ignore a value that cannot be read, and do not match a caller without an address', () => {
    const entries = [entry({ value: 'not an address' }), entry({ kind: 'user', value: 'u' })];
    expect(ask(entries, { userId: 'u' })).toBe('deny');
    expect(ask([entry({ value: '0.0.0.0/0' })], { address: 'unknown' })).toBeUndefined();
  });

  it('keep IPv4 and IPv6 apart', () => {
    expect(ask([entry({ value: '0.0.0.0/0' })], { address: '::1' })).toBeUndefined();
    expect(ask([entry({ value: '::/0' })], { address: '0.0.0.1' })).toBeUndefined();
  });

  it('agree with Node on which addresses are in which ranges', () => {
    const v4 = fc
      .tuple(fc.constantFrom(10, 11, 192), fc.nat(3), fc.nat(255))
      .map(([a, b, c]) => `${a}.${b}.0.${c}`);
    const v6 = fc.tuple(fc.nat(3), fc.nat(65_535)).map(([a, b]) => `2001:db8:${a}::${b.toString(16)}`);
    const range = fc.oneof(
      fc.record({ family: fc.constant('ipv4' as const), start: v4, length: fc.nat(32) }),
      fc.record({ family: fc.constant('ipv6' as const), start: v6, length: fc.nat(128) }),
    );
    fc.assert(
      fc.property(fc.array(range, { maxLength: 6 }), fc.oneof(v4, v6), (ranges, address) => {
        const family = address.includes(':') ? 'ipv6' : 'ipv4';
        const model = new BlockList();
        // Node treats IPv4 as a part of IPv6. Here, as in Postgres, no range has both.
        for (const range of ranges)
          if (range.family === family) model.addSubnet(range.start, range.length, family);
        const entries = ranges.map(({ start, length }) => entry({ value: `${start}/${length}` }));
        const isIn = model.check(address, family);
        expect(ask(entries, { address })).toBe(isIn ? 'deny' : undefined);
      }),
      { numRuns: rounds(1_000) },
    );
  });
});
