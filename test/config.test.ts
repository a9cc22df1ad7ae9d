import { describe, expect, it } from 'vitest';
import type { Bindings } from '../src/config/bindings.ts';
import { ConfigError, parseConfig } from '../src/config/config.ts';

const SECRET = 'a-token-nobody-may-see';
const region = {
  name: 'us',
  url: 'https://us.example.com',
  token: SECRET,
  share: 1,
  latitude: 39,
  longitude: -77,
};
const env = {
  RULES: {},
  ORIGIN_URL: 'https://api.example.com/v1/',
  REGIONS: JSON.stringify([region]),
  DATABASE_URL: 'postgres://u:p@db.example.com/weir',
  ADMIN_TOKEN: '0123456789abcdef',
};
const parse = (changes: Record<string, unknown>) =>
  parseConfig({ ...env, ...changes } as unknown as Bindings);
const problemsOf = (changes: Record<string, unknown>) => {
  try {
    parse(changes);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.errors.map(({ pointer, detail }) => `${pointer}: ${detail}`);
  }
};

describe('parseConfig', () => {
  it('fills in defaults', () => {
    expect(parse({})).toMatchObject({
      originUrl: 'https://api.example.com/v1/',
      isDevelopment: false,
      deadlineMs: 250,
      isolateCap: 1_000,
      isolates: 10,
      databaseCheckMinutes: 1,
      deployment: undefined,
      showsDegraded: false,
      overrideHeaders: 'drop',
      originRateLimitHeaders: 'rename',
      unverified: 'count',
      regions: [region],
    });
  });

  it('reads the cap of an isolate and the number of isolates; a cap of 0 means no cap', () => {
    expect(parse({ ISOLATE_CAP: '0', ISOLATES: '1' })).toMatchObject({ isolateCap: 0, isolates: 1 });
    const most = { ISOLATE_CAP: '1000000', ISOLATES: '1000000' };
    expect(parse(most)).toMatchObject({ isolateCap: 1_000_000, isolates: 1_000_000 });
  });

  it.each([
    ['admin.example.com', 'admin.example.com'],
    ['Admin.Example.COM.', 'admin.example.com'],
    ['bücher.example', 'xn--bcher-kva.example'],
  ])('reads the admin host as requests spell it: %s', (ADMIN_HOST, adminHost) =>
    expect(parse({ ADMIN_HOST }).adminHost).toBe(adminHost),
  );

  it('reads the switch that turns enforcement into logging', () => {
    expect(parse({}).isLogOnly).toBe(false);
    expect(parse({ ENFORCEMENT: 'log' }).isLogOnly).toBe(true);
    expect(problemsOf({ ENFORCEMENT: 'off' })).toEqual([
      'ENFORCEMENT: Invalid option: expected one of "on"|"log"',
    ]);
  });

  it('reads how long denials and usage are kept, and how subjects are stored', () => {
    const telemetry = { queue: undefined, everyMs: 25_000, eventsDays: 30, usageDays: 400, isHashed: false };
    expect(parse({}).telemetry).toMatchObject(telemetry);
    const queue = { send: async () => {} };
    const changes = { RECORDS: queue, TELEMETRY_SECONDS: '1', SUBJECTS: 'hash', SUBJECTS_KEY: SECRET };
    const expected = { queue, everyMs: 1_000, isHashed: true, subjectsKey: SECRET };
    expect(parse(changes).telemetry).toMatchObject(expected);
  });

  it('reads the webhook for thresholds', () => {
    expect(parse({}).telemetry.webhook).toBeUndefined();
    const url = 'https://hooks.example.com/weir';
    const secret = `whsec_${btoa('x'.repeat(24))}`;
    expect(parse({ ALERT_WEBHOOK: url, ALERT_WEBHOOK_SECRET: secret }).telemetry.webhook).toEqual({
      url,
      secret,
    });
  });

  it.each(['x'.repeat(23), 'x'.repeat(66)])(
    'refuses a webhook secret with too few or too many bytes: %s',
    (bytes) => {
      const secret = `whsec_${btoa(bytes)}`;
      expect(problemsOf({ ALERT_WEBHOOK_SECRET: secret })).toEqual([
        'ALERT_WEBHOOK_SECRET: must be whsec_ and 24 to 64 bytes in base64',
      ]);
    },
  );

  it('takes the deployment from Cloudflare’s version metadata', () => {
    expect(parse({ CF_VERSION_METADATA: { id: 'v7', tag: '' } }).deployment).toBe('v7');
  });

  it('takes a region whose share is 0, as long as another one has a share', () => {
    const regions = [
      { ...region, share: 0 },
      { ...region, name: 'eu' },
    ];
    const shares = parse({ REGIONS: JSON.stringify(regions) }).regions.map(({ share }) => share);
    expect(shares).toEqual([0, 1]);
  });

  it('takes the token of a region from a secret of its own, if REGIONS has none for it', () => {
    const { token: _, ...us } = region;
    const REGIONS = JSON.stringify([us, { ...us, name: 'eu-west' }, { ...region, name: 'ap' }]);
    const secrets = { REDIS_TOKEN_US: 'of us', REDIS_TOKEN_EU_WEST: 'of eu', REDIS_TOKEN_AP: 'of ap' };
    const tokens = parse({ REGIONS, ...secrets }).regions.map(({ token }) => token);
    expect(tokens).toEqual(['of us', 'of eu', SECRET]);
    expect(problemsOf({ REGIONS, REDIS_TOKEN_US: '', REDIS_TOKEN_AP: SECRET })).toEqual([
      'REDIS_TOKEN_US: is missing, and so is the token of "us" in REGIONS',
      'REDIS_TOKEN_EU_WEST: is missing, and so is the token of "eu-west" in REGIONS',
    ]);
  });

  it.each([
    ['production', undefined, false],
    ['production', 'on', true],
    ['production', 'off', false],
    ['development', undefined, true],
    ['development', 'on', true],
    ['development', 'off', false],
  ])('in %s with DEGRADED_HEADER %s shows what went wrong: %s', (ENVIRONMENT, DEGRADED_HEADER, expected) => {
    expect(parse({ ENVIRONMENT, DEGRADED_HEADER }).showsDegraded).toBe(expected);
  });

  describe('outside development, refuses plain http unless PLAIN_HTTP allows it', () => {
    const secret = `whsec_${'A'.repeat(32)}`;
    const access = JSON.stringify({ teamDomain: 'http://team.example.com', audience: 'a' });
    it.each<[string, Record<string, string>]>([
      ['ORIGIN_URL', { ORIGIN_URL: 'http://api.example.com' }],
      ['REGIONS/0/url', { REGIONS: JSON.stringify([{ ...region, url: 'HTTP://us.test' }]) }],
      ['DATABASE_HTTP_ENDPOINT', { DATABASE_HTTP_ENDPOINT: 'http://db.example.com/sql' }],
      ['JWT/jwksUrl', { JWT: '{"jwksUrl":"http://issuer.example.com/keys"}' }],
      ['ADMIN_ACCESS/teamDomain', { ADMIN_ACCESS: access }],
      ['OTLP_URL', { OTLP_URL: 'http://otlp.example.com' }],
      ['ALERT_WEBHOOK', { ALERT_WEBHOOK: 'http://hooks.example.com', ALERT_WEBHOOK_SECRET: secret }],
    ])('%s', (name, changes) => {
      const problem = `${name}: is plain http, which anybody on the way can read and change; PLAIN_HTTP=allow takes it`;
      expect(problemsOf(changes)).toEqual([problem]);
      expect(problemsOf({ ...changes, ENVIRONMENT: 'development', PLAIN_HTTP: 'refuse' })).toEqual([problem]);
      expect(problemsOf({ ...changes, PRIVATE_ORIGINS: 'allow' })).toEqual([problem]);
      expect(problemsOf({ ...changes, PLAIN_HTTP: 'allow' })).toEqual([]);
      expect(problemsOf({ ...changes, ENVIRONMENT: 'development' })).toEqual([]);
    });
  });

  it.each([
    [{ ORIGIN_URL: undefined }, 'ORIGIN_URL: is missing'],
    [{ ORIGIN_URL: 'api.example.com' }, 'ORIGIN_URL: must be an http or https URL, service:NAME or pass'],
    [
      { ORIGIN_URL: 'ftp://api.example.com' },
      'ORIGIN_URL: must be an http or https URL, service:NAME or pass',
    ],
    [{ ORIGIN_URL: 'service:API' }, 'ORIGIN_URL: names a service binding that this Worker does not have'],
    [
      { ORIGIN_URL: 'https://10.0.0.1' },
      'ORIGIN_URL: is a loopback or private address; PRIVATE_ORIGINS=allow takes it outside development too',
    ],
    [{ RULES: undefined }, 'RULES: KV binding is missing'],
    [{ DATABASE_URL: 'mysql://x' }, 'DATABASE_URL: must be a postgres:// URL'],
    [{ ALERT_WEBHOOK: 'hooks.example.com' }, 'ALERT_WEBHOOK: must be an http or https URL'],
    [
      { ALERT_WEBHOOK: 'https://hooks.example.com' },
      'ALERT_WEBHOOK_SECRET: is missing: it signs what ALERT_WEBHOOK is told',
    ],
    [{ ADMIN_TOKEN: 'short' }, 'ADMIN_TOKEN: must have at least 16 characters'],
    [{ JWT: '{"algorithms":["none"],"jwksUrl":"https://x.test"}' }, /^JWT\/algorithms\/0: Invalid option/],
    [{ JWT: '{}' }, 'JWT/jwksUrl: is missing'],
    [
      { JWT: '{"algorithms":["HS256"]}' },
      'JWT_SECRET: is missing: JWT.algorithms are those of a shared secret',
    ],
    [
      { JWT: '{"algorithms":["HS256","RS256"],"jwksUrl":"https://x.test"}', JWT_SECRET: SECRET.repeat(2) },
      'JWT/algorithms: must be all of HS… (JWT_SECRET) or none of them (jwksUrl)',
    ],
    [{ JWT_SECRET: 'short' }, 'JWT_SECRET: must have at least 32 characters'],
    [{ IPV6_PREFIX: '0' }, 'IPV6_PREFIX: must be a whole number from 32 to 128'],
    [{ COST_HEADER: 'a b' }, 'COST_HEADER: must be the name of a header'],
    [{ OVERRIDE_HEADERS: 'pass' }, /^OVERRIDE_HEADERS: Invalid option/],
    [{ ORIGIN_TIMEOUT_MS: 'x' }, 'ORIGIN_TIMEOUT_MS: must be a whole number from 1 to 900000'],
    [{ DEADLINE_MS: '0' }, 'DEADLINE_MS: must be a whole number of milliseconds from 1 to 99999'],
    [{ ISOLATE_CAP: '-1' }, 'ISOLATE_CAP: must be a whole number from 0 to 1000000'],
    [{ ISOLATE_CAP: '1000001' }, 'ISOLATE_CAP: must be a whole number from 0 to 1000000'],
    [{ ISOLATE_CAP: '' }, 'ISOLATE_CAP: must be a whole number from 0 to 1000000'],
    [{ DATABASE_CHECK_MINUTES: '0' }, 'DATABASE_CHECK_MINUTES: must be a whole number from 1 to 1440'],
    [{ RECORDS: 'weir-records' }, 'RECORDS: must be a queue binding'],
    ...['26', '0', '0.05', '1.5', '100'].map((TELEMETRY_SECONDS): [Record<string, string>, string] => [
      { TELEMETRY_SECONDS },
      'TELEMETRY_SECONDS: must be 1 to 25, or 0.1 to 0.9',
    ]),
    [{ EVENTS_DAYS: '0' }, 'EVENTS_DAYS: must be a whole number from 1 to 3650'],
    [{ SUBJECTS: 'md5' }, /^SUBJECTS: Invalid option/],
    [{ SUBJECTS_KEY: 'short' }, 'SUBJECTS_KEY: must have at least 16 characters'],
    [{ OTLP_URL: 'collector:4318' }, 'OTLP_URL: must be an http or https URL'],
    [{ ISOLATES: '0' }, 'ISOLATES: must be a whole number from 1 to 1000000'],
    [{ ISOLATES: '2.5' }, 'ISOLATES: must be a whole number from 1 to 1000000'],
    [{ DEGRADED_HEADER: 'yes' }, /^DEGRADED_HEADER: Invalid option/],
    [{ REGIONS: undefined }, 'REGIONS: is missing'],
    [{ REGIONS: '[{' }, 'REGIONS: must be JSON'],
    [{ ADMIN_TOKEN: undefined }, 'ADMIN_TOKEN: is missing, and so are ADMIN_TOKENS and ADMIN_ACCESS'],
    [{ ADMIN_TOKENS: 'x' }, 'ADMIN_TOKENS: must be JSON'],
    [
      { ADMIN_TOKENS: JSON.stringify([{ name: 'ci', token: 'short' }]) },
      'ADMIN_TOKENS/0/token: must have at least 16 characters',
    ],
    [
      { ADMIN_TOKENS: JSON.stringify([{ name: 'admin', token: SECRET }]) },
      'ADMIN_TOKENS: has two tokens of one name (ADMIN_TOKEN is named admin)',
    ],
    [
      { ADMIN_ACCESS: JSON.stringify({ teamDomain: 'team', audience: 'x' }) },
      'ADMIN_ACCESS/teamDomain: must be https://TEAM.cloudflareaccess.com',
    ],
    ...['', ' ', 'https://admin.example.com', 'admin.example.com:8443', 'a.example.com/x', 'a b', '.'].map(
      (ADMIN_HOST): [Record<string, unknown>, string] => [
        { ADMIN_HOST },
        'ADMIN_HOST: must be a host name such as weir-admin.example.com, without scheme, port or path',
      ],
    ),
    [{ REGIONS: JSON.stringify([region, region]) }, 'REGIONS: has two regions of one name'],
    [{ REGIONS: JSON.stringify([{ ...region, token: '' }]) }, 'REGIONS/0/token: must not be empty'],
    [
      { REGIONS: JSON.stringify([{ ...region, share: 0 }]) },
      'REGIONS: must have at least one region with a share above 0',
    ],
    [{ REGIONS: '[]' }, 'REGIONS/0: is missing'],
    [{ REGIONS: JSON.stringify([{ ...region, latitude: '39' }]) }, 'REGIONS/0/latitude: must be a number'],
    [{ REGIONS: JSON.stringify([{ ...region, weight: 1 }]) }, 'REGIONS/0/weight: is not a field'],
    [{ REGIONS: JSON.stringify([{ ...region, share: -1 }]) }, /^REGIONS\/0\/share: /],
    [{ REGIONS: JSON.stringify([region]).replace('1', '1e999') }, /^REGIONS\/0\/share: /],
    [
      { REGIONS: JSON.stringify([region, { ...region, name: 'eu', url: SECRET }]) },
      'REGIONS/1/url: must be an http or https URL',
    ],
  ])('names the problem: %o', (changes, problem) =>
    expect(problemsOf(changes)).toEqual([
      typeof problem === 'string' ? problem : expect.stringMatching(problem),
    ]),
  );

  it('names all problems at once, and never repeats a value', () => {
    const region1 = { ...region, share: SECRET, latitude: SECRET, [SECRET.slice(0, 5)]: SECRET };
    const problems = problemsOf({
      ORIGIN_URL: SECRET,
      ENVIRONMENT: SECRET,
      REGIONS: JSON.stringify([region1]),
    });
    expect(problems.length).toBeGreaterThanOrEqual(4);
    expect(problems.join()).not.toContain(SECRET);
  });

  it('refuses an empty list of regions', () => expect(problemsOf({ REGIONS: '[]' })).toHaveLength(1));
});
