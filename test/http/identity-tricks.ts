// Ways to look like another caller without proof. None of them changes who the caller is.

/** The headers of a request, in the order in which the client sends them. A name may occur twice. */
export type HeaderList = readonly (readonly [name: string, value: string])[];
export type IdentityTrick = readonly [name: string, headers: HeaderList];

/** The material of a trick. */
export interface Props {
  /** Well-formed keys that belong to nobody. */
  readonly madeUpKeys: readonly [string, string];
  readonly goodKey: string;
  /** Signed by an unknown issuer. */
  readonly forgedTokens: readonly [string, string];
  readonly goodToken: string;
}

/** Tests send every trick with the same CF-Connecting-IP. */
export function nobodysTricks({ madeUpKeys, goodKey, forgedTokens, goodToken }: Props): IdentityTrick[] {
  const [madeUp, other] = madeUpKeys;
  const [forged, otherForged] = forgedTokens;
  return [
    ['nothing', []],
    ['a made-up key', [['X-API-Key', madeUp]]],
    ['another made-up key', [['X-API-Key', other]]],
    ['a key that is not even one', [['X-API-Key', 'let-me-in']]],
    ['an empty key', [['X-API-Key', '']]],
    ['a very long key', [['X-API-Key', `weir_${'x'.repeat(4_000)}`]]],
    ['a key beyond ASCII', [['X-API-Key', 'weir_\u00e9\u00e8\u00ff']]],
    ['a good key in other letters', [['X-API-Key', goodKey.toUpperCase()]]],
    ['a good key with more behind it', [['X-API-Key', `${goodKey}x`]]],
    ['a good key without its end', [['X-API-Key', goodKey.slice(0, -1)]]],
    ['a good key in quotes', [['X-API-Key', `"${goodKey}"`]]],
    [
      'a good key and another',
      [
        ['X-API-Key', goodKey],
        ['X-API-Key', madeUp],
      ],
    ],
    [
      'a good key twice',
      [
        ['X-API-Key', goodKey],
        ['X-API-Key', goodKey],
      ],
    ],
    ['a good key in another header', [['X-Api-Token', goodKey]]],
    ['a good key as a token, in quotes', [['Authorization', `Bearer "${goodKey}"`]]],
    ['a good key as a password', [['Authorization', `Basic ${btoa(`key:${goodKey}`)}`]]],
    ['a forged token', [['Authorization', `Bearer ${forged}`]]],
    ['another forged token', [['Authorization', `bearer ${otherForged}`]]],
    ['no token', [['Authorization', 'Bearer']]],
    ['a token of one blank', [['Authorization', 'Bearer  ']]],
    ['a token that is not even one', [['Authorization', 'Bearer let-me-in']]],
    ['a token beyond ASCII', [['Authorization', 'Bearer \u00e9.\u00e8.\u00ff']]],
    ['a good token by another scheme', [['Authorization', `Token ${goodToken}`]]],
    ['a good token without a scheme', [['Authorization', goodToken]]],
    ['a good token right after its scheme', [['Authorization', `Bearer${goodToken}`]]],
    ['a good token after a colon', [['Authorization', `Bearer:${goodToken}`]]],
    ['a good token after a hard blank', [['Authorization', `Bearer\u00a0${goodToken}`]]],
    [
      'a good token behind another scheme',
      [
        ['Authorization', 'Basic YTpi'],
        ['Authorization', `Bearer ${goodToken}`],
      ],
    ],
    ['a good token in quotes', [['Authorization', `Bearer "${goodToken}"`]]],
    ['a good token and more', [['Authorization', `Bearer ${goodToken} x`]]],
    ['a good token without its end', [['Authorization', `Bearer ${goodToken.slice(0, -8)}`]]],
    [
      'two tokens, one of them good',
      [
        ['Authorization', `Bearer ${forged}`],
        ['Authorization', `Bearer ${goodToken}`],
      ],
    ],
    [
      'two tokens, both good',
      [
        ['Authorization', `Bearer ${goodToken}`],
        ['Authorization', `Bearer ${goodToken}`],
      ],
    ],
    ['a good token in another header', [['Proxy-Authorization', `Bearer ${goodToken}`]]],
    ['a good token as an assertion of Access', [['Cf-Access-Jwt-Assertion', goodToken]]],
    ['a good token in a cookie', [['Cookie', `token=${goodToken}; CF_Authorization=${goodToken}`]]],
    [
      'a made-up key and a forged token',
      [
        ['X-API-Key', madeUp],
        ['Authorization', `Bearer ${forged}`],
      ],
    ],
    ['X-Forwarded-For', [['X-Forwarded-For', '203.0.113.1']]],
    ['X-Forwarded-For of many', [['X-Forwarded-For', '203.0.113.1, 203.0.113.2, 127.0.0.1']]],
    ['X-Real-IP', [['X-Real-IP', '203.0.113.3']]],
    ['True-Client-IP', [['True-Client-IP', '203.0.113.4']]],
    ['Forwarded', [['Forwarded', 'for="[2001:db8::5]";proto=https']]],
    ['CF-Connecting-IPv6', [['CF-Connecting-IPv6', '2001:db8::6']]],
    ['CF-Pseudo-IPv4', [['CF-Pseudo-IPv4', '240.1.2.3']]],
    ['X-Client-IP', [['X-Client-IP', '203.0.113.7']]],
    ['X-Cluster-Client-IP', [['X-Cluster-Client-IP', '203.0.113.8']]],
    ['Fastly-Client-IP', [['Fastly-Client-IP', '203.0.113.9']]],
    ['CF-Connecting-IP with an underscore', [['CF_Connecting_IP', '203.0.113.10']]],
    ['X-Weir-User', [['X-Weir-User', 'alice']]],
    ['X-Weir-Key-Id', [['X-Weir-Key-Id', 'key-1']]],
    ['X-Weir-Tenant', [['X-Weir-Tenant', 'acme']]],
    ['X-Weir-Tier', [['X-Weir-Tier', 'gold']]],
    ['X-Tenant-ID', [['X-Tenant-ID', 'acme']]],
    ['X-User-ID', [['X-User-ID', 'alice']]],
    ['Cf-Access-Authenticated-User-Email', [['Cf-Access-Authenticated-User-Email', 'alice@example.com']]],
    ['another browser', [['User-Agent', 'curl/8.0']]],
    ['another session', [['Cookie', 'session=1234']]],
    ['another site', [['Origin', 'https://evil.test']]],
    ['another country', [['CF-IPCountry', 'AQ']]],
  ];
}

/** All of these are one address. */
export const SPELLINGS_OF_IPV4 = [
  '198.51.100.7',
  '::ffff:198.51.100.7',
  '::FFFF:C633:6407',
  '0:0:0:0:0:ffff:198.51.100.7',
  '0000:0000:0000:0000:0000:ffff:c633:6407',
] as const;

/** All of these are in 2001:db8:1:2::/64. */
export const ADDRESSES_OF_A_PREFIX = [
  '2001:db8:1:2::',
  '2001:db8:1:2::1',
  '2001:DB8:1:2::1',
  '2001:0db8:0001:0002:0000:0000:0000:0002',
  '2001:db8:1:2:ffff:ffff:ffff:ffff',
  '2001:db8:1:2:1234:5678:9abc:def0',
  '2001:db8:1:2::198.51.100.7',
  '2001:db8:1:2:0:ffff:198.51.100.7',
] as const;

/** None of these is an address, so all of them share one bucket. */
export const NO_ADDRESSES: readonly HeaderList[] = [
  [],
  [['CF-Connecting-IP', '']],
  [['CF-Connecting-IP', 'unknown']],
  [['CF-Connecting-IP', '198.51.100.7, 198.51.100.8']],
  [
    ['CF-Connecting-IP', '198.51.100.7'],
    ['CF-Connecting-IP', '198.51.100.8'],
  ],
  [
    ['CF-Connecting-IP', '198.51.100.7'],
    ['CF-Connecting-IP', '198.51.100.7'],
  ],
  [['CF-Connecting-IP', '198.51.100.7:80']],
  [['CF-Connecting-IP', '198.51.100.07']],
  [['CF-Connecting-IP', '0xc6336407']],
  [['CF-Connecting-IP', '198.51.100.7/32']],
  [['CF-Connecting-IP', '[2001:db8::1]']],
  [['CF-Connecting-IP', 'fe80::1%eth0']],
  [['CF-Connecting-IP', 'fe80::1%eth1']],
  [['CF-Connecting-IP', 'for=198.51.100.7']],
  [['CF-Connecting-IP', '\u00b9\u00b2.0.0.1']],
  [['X-Forwarded-For', '198.51.100.7']],
];

/** Tricks of a caller with a valid token. None turns the caller into another one. */
export function alicesTricks({ madeUpKeys, goodToken }: Props): IdentityTrick[] {
  return [
    ['as it should be', [['Authorization', `Bearer ${goodToken}`]]],
    ['in small letters', [['authorization', `bearer ${goodToken}`]]],
    ['in capital letters', [['AUTHORIZATION', `BEARER ${goodToken}`]]],
    ['after several blanks', [['Authorization', `Bearer    ${goodToken}`]]],
    ['after a tab', [['Authorization', `Bearer\t${goodToken}`]]],
    ['with blanks around', [['Authorization', `  Bearer ${goodToken}  `]]],
    [
      'beside a made-up key',
      [
        ['X-API-Key', madeUpKeys[0]],
        ['Authorization', `Bearer ${goodToken}`],
      ],
    ],
    [
      'beside made-up headers',
      [
        ['Authorization', `Bearer ${goodToken}`],
        ['X-Weir-User', 'bob'],
        ['X-Weir-Tenant', 'other'],
        ['X-Tenant-ID', 'other'],
      ],
    ],
  ];
}
