// The three kinds of origin, and which of them are refused outside development.
import { describe, expect, it } from 'vitest';
import { originProblem } from '../../src/authoring/route-schema.ts';
import { originProblemHere, parseOrigin } from '../../src/core/matching/origin-routes.ts';

const PRODUCTION = { allowsPrivate: false, allowsPlainHttp: false, services: ['API'] };
const DEVELOPMENT = { allowsPrivate: true, allowsPlainHttp: true, services: [] };

describe('an origin', () => {
  it.each([
    ['pass', { kind: 'pass' }],
    ['service:API_2', { kind: 'service', name: 'API_2' }],
    ['https://api.example.com', { kind: 'url', url: 'https://api.example.com' }],
    ['https://api.example.com/base//', { kind: 'url', url: 'https://api.example.com/base' }],
    ['HTTP://Example.com:80/', { kind: 'url', url: 'http://example.com' }],
  ])('%s is read', (text, origin) => {
    expect(parseOrigin(text)).toEqual(origin);
    expect(originProblem(text)).toBeUndefined();
  });

  it.each(['', 'example.com', 'ftp://x', 'service:', 'service:a-b', 'Pass', 'https://', 'javascript:x'])(
    '"%s" is none of the three kinds',
    (text) => expect(originProblem(text)).toBe('must be an https URL, service:NAME or pass'),
  );

  it.each(['https://u:p@x.com', 'https://u@x.com', 'https://x.com/?a', 'https://x.com/#a'])(
    '%s is refused for its user, query or fragment',
    (text) => expect(originProblem(text)).toContain('must have no'),
  );
});

describe('outside development', () => {
  it.each([
    'http://127.0.0.1',
    'https://127.0.0.1:8443',
    'https://localhost',
    'https://api.localhost.',
    'https://nas.local',
    'https://db.internal',
    'https://intranet',
    'https://nas',
    'https://router.lan',
    'https://x.home.arpa',
    'https://10.1.2.3',
    'https://172.16.0.1',
    'https://192.168.1.1',
    'https://169.254.169.254',
    'https://100.64.0.1',
    'https://0.0.0.0',
    'https://255.255.255.255',
    'https://224.0.0.1',
    // The same address in other spellings.
    'https://127.1',
    'https://2130706433',
    'https://0x7f.1',
    'https://0177.0.0.1',
    'https://[::1]',
    'https://[::]',
    'https://[fd00::1]',
    'https://[fe80::1]',
    'https://[::ffff:127.0.0.1]',
    'https://[::ffff:a9fe:a9fe]',
    'https://[64:ff9b::7f00:1]',
    // IPv4 inside IPv6: compatible, translated, 6to4, Teredo, NAT64 of a network.
    'https://[::127.0.0.1]',
    'https://[::7f00:1]',
    'https://[::10.0.0.1]',
    'https://[::8.8.8.8]',
    'https://[::ffff:0:127.0.0.1]',
    'https://[2002:7f00:1::]',
    'https://[2002:a00:1::1]',
    'https://[2001:0:7f00:1::]',
    'https://[64:ff9b:1::7f00:1]',
    'https://[fec0::1]',
    'https://[100::1]',
    'https://[ff02::1]',
    'https://[2001:db8::1]',
    'https://[4000::1]',
    // Other spellings that a URL folds, and dots at the end.
    'https://0x7f000001',
    'https://017700000001',
    'https://127.0.0.1.',
    'https://１２７.0.0.1',
    'https://%31%32%37.0.0.1',
    'https://localhost..',
    'https://api.localhost...',
    'https://nas..',
  ])('%s is refused, and in development it is not', (origin) => {
    expect(originProblemHere(origin, PRODUCTION)).toContain('loopback or private');
    expect(originProblemHere(origin, DEVELOPMENT)).toBeUndefined();
  });

  it.each([
    'https://api.example.com',
    'https://93.184.216.34',
    'https://[2606:2800:220:1::1]',
    'service:API',
    'pass',
  ])('%s is fine', (origin) => expect(originProblemHere(origin, PRODUCTION)).toBeUndefined());

  it('plain http is refused', () => {
    expect(originProblemHere('http://api.example.com', PRODUCTION)).toContain('PLAIN_HTTP');
    const privateOnly = { ...PRODUCTION, allowsPrivate: true };
    expect(originProblemHere('http://10.0.0.1', privateOnly)).toContain('PLAIN_HTTP');
    expect(originProblemHere('http://api.example.com', { ...PRODUCTION, allowsPlainHttp: true })).toBe(
      undefined,
    );
  });
});

it('a service without a binding is refused, and the error names the bound services', () => {
  expect(originProblemHere('service:OTHER', PRODUCTION)).toBe(
    'names a service binding that this Worker does not have; it has API',
  );
  expect(originProblemHere('service:OTHER', DEVELOPMENT)).toContain('it has none');
});
