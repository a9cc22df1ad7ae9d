import { isIP } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { countedIp, ipRangeProblem, parseIp, parseIpRange } from '../../src/core/matching/ip.ts';
import { rounds } from '../rounds.ts';

describe('countedIp', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1', '192.0.2.1'],
    ['2001:DB8:1:2:3:4:5:6', '2001:db8:1:2::/64', '2001:db8:1:2:3:4:5:6'],
    ['2001:0db8:0001:0002::', '2001:db8:1:2::/64', '2001:db8:1:2::'],
    ['::1', '::/64', '::1'],
    ['::ffff:192.0.2.1', '192.0.2.1', '192.0.2.1'],
    ['::FFFF:C000:0201', '192.0.2.1', '192.0.2.1'],
    ['0:0:0:0:0:ffff:c000:201', '192.0.2.1', '192.0.2.1'],
    ['::192.0.2.1', '::/64', '::c000:201'],
    ['64:ff9b::192.0.2.1', '64:ff9b::/64', '64:ff9b::c000:201'],
    ['1:2:3:4:5:6:7::', '1:2:3:4::/64', '1:2:3:4:5:6:7:0'],
  ])('%s counts as %s and is %s', (text, ip, address) => expect(countedIp(text)).toEqual({ ip, address }));

  it('masks IPv6 to any prefix, even within a group', () => {
    const at = (prefix: number) => countedIp('2001:db8:ffff:ffff::1', prefix)?.ip;
    expect(at(56)).toBe('2001:db8:ffff:ff00::/56');
    expect(at(48)).toBe('2001:db8:ffff::/48');
    expect(at(60)).toBe('2001:db8:ffff:fff0::/60');
    expect(at(128)).toBe('2001:db8:ffff:ffff::1/128');
    expect(at(0)).toBe('::/0');
  });

  it.each([
    '',
    'unknown',
    '192.0.2',
    '192.0.2.256',
    '192.0.2.01',
    '0xc0.0.2.1',
    '3221225985',
    ' 192.0.2.1',
    '192.0.2.1:80',
    '[::1]',
    'fe80::1%eth0',
    '::1%0',
    ':::',
    '1::2::3',
    '1:2:3:4:5:6:7',
    '1:2:3:4:5:6:7:8:9',
    '12345::',
    '::ffff:192.0.2.01',
    '::ffff:0x7f.0.0.1',
    '::ffff:192.0.2.256',
    '::192.0.2.1:1',
    '192.0.2.1/32',
  ])('%j is not an address', (text) => expect(countedIp(text)).toBeUndefined());

  it('agrees with Node on what is an address', () => {
    const piece = fc.constantFrom('::', ':', '.', '0', '1', 'ffff', 'F', '255', '256', '01', 'g', '1.2.3.4');
    const text = fc.oneof(
      fc.array(piece, { maxLength: 16 }).map((pieces) => pieces.join('')),
      fc
        .array(fc.constantFrom('0', '1', 'abcd', ''), { minLength: 1, maxLength: 9 })
        .map((groups) => groups.join(':')),
      fc.ipV4(),
      fc.ipV6(),
    );
    fc.assert(
      fc.property(text, (asked) => {
        expect(parseIp(asked) !== undefined).toBe(isIP(asked) !== 0);
      }),
      { numRuns: rounds(500) },
    );
  });

  it('has one spelling for each address, which is read as the same address', () => {
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (text) => {
        const counted = countedIp(text);
        expect(countedIp(counted?.address ?? '')).toEqual(counted);
        expect(countedIp(text.toUpperCase())).toEqual(counted);
      }),
    );
  });
});

describe('a range', () => {
  it.each([
    ['10.0.0.0/8', [0x0a00, 0], 8],
    ['10.1.2.3', [0x0a01, 0x0203], 32],
    ['10.1.2.3/8', [0x0a00, 0], 8],
    ['0.0.0.0/0', [0, 0], 0],
    ['2001:db8::/33', [0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 33],
    ['::ffff:10.0.0.0/104', [0x0a00, 0], 8],
    ['::ffff:0:0/96', [0, 0], 0],
    ['::/0', [0, 0, 0, 0, 0, 0, 0, 0], 0],
  ])('%s is read', (text, groups, prefixLength) =>
    expect(parseIpRange(text)).toEqual({ groups, prefixLength }),
  );

  it.each(['192.0.2.1', '10.0.0.0/8', '::1', '2001:db8::/32', '0.0.0.0/0', '::/0', '::ffff:10.0.0.0/104'])(
    '%s is fine',
    (text) => expect(ipRangeProblem(text)).toBeUndefined(),
  );

  const NEITHER = 'must be an IPv4 or IPv6 address, or a range such as 10.0.0.0/8';
  it.each([
    ['', NEITHER],
    ['example.com', NEITHER],
    ['10.0.0/8', NEITHER],
    ['/8', NEITHER],
    ['10.0.0.0/', 'must have a prefix length from 0 to 32'],
    ['10.0.0.0/33', 'must have a prefix length from 0 to 32'],
    ['10.0.0.0/08', 'must have a prefix length from 0 to 32'],
    ['10.0.0.0/-1', 'must have a prefix length from 0 to 32'],
    ['10.0.0.0/8/8', 'must have a prefix length from 0 to 32'],
    ['2001:db8::/129', 'must have a prefix length from 0 to 128'],
    ['fe80::%eth0/64', 'must not have a zone id (%)'],
    ['10.0.0.1/8', 'has bits beyond its prefix: the range begins at 10.0.0.0/8'],
    ['2001:db8::1/64', 'has bits beyond its prefix: the range begins at 2001:db8::/64'],
  ])('%j is refused: %s', (text, problem) => expect(ipRangeProblem(text)).toBe(problem));
});
