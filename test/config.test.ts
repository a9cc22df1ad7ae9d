import { describe, expect, it } from 'vitest';
import {
  ConfigError,
  parseCoreConfig,
  parseDeploymentConfig,
  parseWorkerConfig,
} from '../src/config/config.ts';
import { variablesOf } from '../src/config/variables.ts';

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
const parse = (changes: Record<string, unknown>) => parseWorkerConfig({ ...env, ...changes });
const problemsOf = (changes: Record<string, unknown>) => {
  try {
    parse(changes);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.errors.map(({ pointer, detail }) => `${pointer}: ${detail}`);
  }
};

describe('the configuration of the Worker', () => {
  it('fills in defaults', () => {
    expect(parse({})).toMatchObject({
      ORIGIN_URL: 'https://api.example.com/v1/',
      ENVIRONMENT: 'production',
      DEADLINE_MS: 250,
      ISOLATE_CAP: 1_000,
      ISOLATES: 10,
      DATABASE_CHECK_MINUTES: 1,
      DEGRADED_HEADER: 'off',
      OVERRIDE_HEADERS: 'drop',
      ORIGIN_RATE_LIMIT_HEADERS: 'rename',
      UNVERIFIED: 'count',
      REGIONS: [region],
      ADMIN_TOKENS: [{ name: 'admin', token: env.ADMIN_TOKEN, role: 'admin' }],
      origins: { allowsPrivate: false, allowsPlainHttp: false, services: [] },
    });
    expect(parse({}).CF_VERSION_METADATA).toBeUndefined();
  });

  it('reads the cap of an isolate and the number of isolates; a cap of 0 means no cap', () => {
    expect(parse({ ISOLATE_CAP: '0', ISOLATES: '1' })).toMatchObject({ ISOLATE_CAP: 0, ISOLATES: 1 });
    const most = { ISOLATE_CAP: '1000000', ISOLATES: '1000000' };
    expect(parse(most)).toMatchObject({ ISOLATE_CAP: 1_000_000, ISOLATES: 1_000_000 });
  });

  it.each([
    ['admin.example.com', 'admin.example.com'],
    ['Admin.Example.COM.', 'admin.example.com'],
    ['bücher.example', 'xn--bcher-kva.example'],
  ])('reads the admin host as requests spell it: %s', (ADMIN_HOST, adminHost) =>
    expect(parse({ ADMIN_HOST }).ADMIN_HOST).toBe(adminHost),
  );

  it('reads the switch that turns enforcement into logging', () => {
    expect(parse({}).ENFORCEMENT).toBe('on');
    expect(parse({ ENFORCEMENT: 'log' }).ENFORCEMENT).toBe('log');
    expect(problemsOf({ ENFORCEMENT: 'off' })).toEqual(['ENFORCEMENT: must be "on" or "log", not "off"']);
  });

  it('reads how long denials and usage are kept, and how subjects are stored', () => {
    const defaults = { TELEMETRY_SECONDS: 25, EVENTS_DAYS: 30, USAGE_DAYS: 400, SUBJECTS: 'plain' };
    expect(parse({})).toMatchObject(defaults);
    const RECORDS = { send: async () => {} };
    const changes = { RECORDS, SUBJECTS: 'hash', SUBJECTS_KEY: SECRET };
    expect(parse({ ...changes, TELEMETRY_SECONDS: '0.5' })).toMatchObject({
      ...changes,
      TELEMETRY_SECONDS: 0.5,
    });
  });

  it('reads the webhook for thresholds', () => {
    expect(parse({}).ALERT_WEBHOOK).toBeUndefined();
    const ALERT_WEBHOOK = 'https://hooks.example.com/weir';
    const both = { ALERT_WEBHOOK, ALERT_WEBHOOK_SECRET: `whsec_${btoa('x'.repeat(24))}` };
    expect(parse(both)).toMatchObject(both);
  });

  it.each(['x'.repeat(23), 'x'.repeat(66)])(
    'refuses a webhook secret with too few or too many bytes: %s',
    (bytes) => {
      const secret = `whsec_${btoa(bytes)}`;
      expect(problemsOf({ ALERT_WEBHOOK_SECRET: secret })).toEqual([
        `ALERT_WEBHOOK_SECRET: must be whsec_ and 24 to 64 bytes in base64, not a text of ${secret.length} characters`,
      ]);
    },
  );

  it('takes an authentication of the operator’s own: a URL, or another Worker', () => {
    const IDENTITY = 'https://auth.example.com/who?from=weir';
    expect(parse({ IDENTITY, IDENTITY_HEADERS: 'Authorization, Cookie: sid' })).toMatchObject({ IDENTITY });
    const AUTH = { fetch: async () => new Response() };
    const config = parse({ IDENTITY: 'service:AUTH', AUTH });
    expect(config.service('AUTH')).toBe(AUTH);
  });

  it.each<[object, unknown]>([
    [{ IDENTITY: 'pass' }, 'IDENTITY: must be an https URL or service:NAME, not a text of 4 characters'],
    [
      { IDENTITY: 'service:AUTH' },
      'IDENTITY: names a service binding that this Worker does not have; it has none',
    ],
    [
      { IDENTITY: 'http://auth.example.com' },
      'IDENTITY: is plain http, which anybody on the way can read and change; PLAIN_HTTP=allow takes it',
    ],
    [
      { IDENTITY: 'https://localhost/' },
      'IDENTITY: is a loopback or private address, which Weir allows only in development (PRIVATE_ORIGINS)',
    ],
    [
      {
        IDENTITY: 'https://auth.example.com',
        JWT: '{"algorithms":["HS256"]}',
        JWT_SECRET: 'x'.repeat(32),
      },
      'IDENTITY: cannot go with JWT: it decides about tokens, too',
    ],
    ...['', 'Cookie', 'Host', 'X-Weir-User', 'Cookie: a b'].map((IDENTITY_HEADERS): [object, unknown] => [
      { IDENTITY_HEADERS },
      expect.stringMatching(
        /^IDENTITY_HEADERS: must be 1 to 8 of HEADER or Cookie: NAME, separated by commas/,
      ),
    ]),
  ])('refuses an authentication that cannot be asked: %j', (changes, problem) =>
    expect(problemsOf({ ...changes })).toEqual([problem]),
  );

  it.each([
    'X-Key',
    'Authorization',
    'authorization:bearer',
    'X-Key, Authorization: Bearer sk_, Authorization: Basic',
  ])('reads where keys stand: %s', (API_KEY_HEADERS) =>
    expect(parse({ API_KEY_HEADERS }).API_KEY_HEADERS).toBe(API_KEY_HEADERS),
  );

  it.each([
    '',
    'X-Key,',
    'X Key',
    'X_Key',
    'X-Key: x',
    'Authorization: Bearer a b',
    'Cookie',
    'CF-Connecting-IP',
    'X-Weir-User',
    Array(9).fill('X-Key').join(),
  ])('refuses a place where no key can stand: %s', (API_KEY_HEADERS) =>
    expect(problemsOf({ API_KEY_HEADERS })).toEqual([
      expect.stringMatching(/^API_KEY_HEADERS: must be 1 to 8 of HEADER, .*, not a text of \d+ character/),
    ]),
  );

  it('takes the deployment from Cloudflare’s version metadata', () => {
    expect(parse({ CF_VERSION_METADATA: { id: 'v7', tag: '' } }).CF_VERSION_METADATA).toEqual({ id: 'v7' });
  });

  it('takes a region whose share is 0, as long as another one has a share', () => {
    const regions = [
      { ...region, share: 0 },
      { ...region, name: 'eu' },
    ];
    const shares = parse({ REGIONS: JSON.stringify(regions) }).REGIONS.map(({ share }) => share);
    expect(shares).toEqual([0, 1]);
  });

  it('takes the token of a region from a secret of its own, if REGIONS has none for it', () => {
    const { token: _, ...us } = region;
    const REGIONS = JSON.stringify([us, { ...us, name: 'eu-west' }, { ...region, name: 'ap' }]);
    const secrets = { REDIS_TOKEN_US: 'of us', REDIS_TOKEN_EU_WEST: 'of eu', REDIS_TOKEN_AP: 'of ap' };
    const tokens = parse({ REGIONS, ...secrets }).REGIONS.map(({ token }) => token);
    expect(tokens).toEqual(['of us', 'of eu', SECRET]);
    expect(problemsOf({ REGIONS, REDIS_TOKEN_US: '', REDIS_TOKEN_AP: SECRET })).toEqual([
      'REDIS_TOKEN_US: is missing, and so is REGIONS/0/token',
      'REDIS_TOKEN_EU_WEST: is missing, and so is REGIONS/1/token',
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
    expect(parse({ ENVIRONMENT, DEGRADED_HEADER }).DEGRADED_HEADER).toBe(expected ? 'on' : 'off');
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
      expect(problemsOf({ ...changes })).toEqual([problem]);
      expect(problemsOf({ ...changes, ENVIRONMENT: 'development', PLAIN_HTTP: 'refuse' })).toEqual([problem]);
      expect(problemsOf({ ...changes, PRIVATE_ORIGINS: 'allow' })).toEqual([problem]);
      expect(problemsOf({ ...changes, PLAIN_HTTP: 'allow' })).toEqual([]);
      expect(problemsOf({ ...changes, ENVIRONMENT: 'development' })).toEqual([]);
    });
  });

  it.each([
    [{ ORIGIN_URL: undefined }, 'ORIGIN_URL: is missing'],
    [
      { ORIGIN_URL: 'api.example.com' },
      'ORIGIN_URL: must be an https URL, service:NAME or pass, not a text of 15 characters',
    ],
    [
      { ORIGIN_URL: 'ftp://api.example.com' },
      'ORIGIN_URL: must be an https URL, service:NAME or pass, not a text of 21 characters',
    ],
    [
      { ORIGIN_URL: 'service:API' },
      'ORIGIN_URL: names a service binding that this Worker does not have; it has none',
    ],
    [
      { ORIGIN_URL: 'https://10.0.0.1' },
      'ORIGIN_URL: is a loopback or private address, which Weir allows only in development (PRIVATE_ORIGINS)',
    ],
    [{ RULES: undefined }, 'RULES: is missing'],
    [{ RULES: 'weir-rules' }, 'RULES: must be a KV binding, not a text of 10 characters'],
    [{ DATABASE_URL: 'mysql://x' }, 'DATABASE_URL: must be a postgres:// URL, not a text of 9 characters'],
    [
      { ALERT_WEBHOOK: 'hooks.example.com', ALERT_WEBHOOK_SECRET: `whsec_${'A'.repeat(32)}` },
      'ALERT_WEBHOOK: must be an https URL, not a text of 17 characters',
    ],
    [
      { ALERT_WEBHOOK: 'https://hooks.example.com' },
      'ALERT_WEBHOOK_SECRET: is missing: it signs the messages to ALERT_WEBHOOK',
    ],
    [{ ADMIN_TOKEN: 'short' }, 'ADMIN_TOKEN: must have at least 16 characters, not 5'],
    [
      { JWT: '{"algorithms":["none"],"jwksUrl":"https://x.test"}' },
      /^JWT\/algorithms\/0: must be "RS256" or .*, not "none"$/,
    ],
    [{ JWT: '{}' }, 'JWT/jwksUrl: is missing'],
    [
      { JWT: '{"algorithms":["HS256"]}' },
      'JWT_SECRET: is missing: JWT.algorithms are those of a shared secret',
    ],
    [
      { JWT: '{"algorithms":["HS256","RS256"],"jwksUrl":"https://x.test"}', JWT_SECRET: SECRET.repeat(2) },
      'JWT/algorithms: must be all of HS… (JWT_SECRET) or none of them (jwksUrl)',
    ],
    [{ JWT_SECRET: 'short' }, 'JWT_SECRET: must have at least 32 characters, not 5'],
    [{ IPV6_PREFIX: '0' }, 'IPV6_PREFIX: must be a whole number from 32 to 128, not "0"'],
    [{ COST_HEADER: 'a b' }, 'COST_HEADER: must be the name of a header, not "a b"'],
    [{ OVERRIDE_HEADERS: 'pass' }, 'OVERRIDE_HEADERS: must be "drop" or "keep", not "pass"'],
    [{ ORIGIN_TIMEOUT_MS: 'x' }, 'ORIGIN_TIMEOUT_MS: must be a whole number from 1 to 900000, not "x"'],
    [{ DEADLINE_MS: '0' }, 'DEADLINE_MS: must be a whole number from 1 to 99999, not "0"'],
    [{ ISOLATE_CAP: '-1' }, 'ISOLATE_CAP: must be a whole number from 0 to 1000000, not "-1"'],
    [{ ISOLATE_CAP: '1000001' }, 'ISOLATE_CAP: must be a whole number from 0 to 1000000, not "1000001"'],
    [{ ISOLATE_CAP: '' }, 'ISOLATE_CAP: must be a whole number from 0 to 1000000, not ""'],
    [
      { DATABASE_CHECK_MINUTES: '0' },
      'DATABASE_CHECK_MINUTES: must be a whole number from 1 to 1440, not "0"',
    ],
    [{ RECORDS: 'weir-records' }, 'RECORDS: must be a queue binding, not a text of 12 characters'],
    ...['26', '0', '0.05', '1.5', '100'].map((TELEMETRY_SECONDS): [Record<string, string>, string] => [
      { TELEMETRY_SECONDS },
      `TELEMETRY_SECONDS: must be 1 to 25, or 0.1 to 0.9, not "${TELEMETRY_SECONDS}"`,
    ]),
    [{ EVENTS_DAYS: '0' }, 'EVENTS_DAYS: must be a whole number from 1 to 3650, not "0"'],
    [{ SUBJECTS: 'md5' }, 'SUBJECTS: must be "plain" or "hash", not "md5"'],
    [{ SUBJECTS_KEY: 'short' }, 'SUBJECTS_KEY: must have at least 16 characters, not 5'],
    [{ OTLP_URL: 'collector:4318' }, 'OTLP_URL: must be an https URL, not a text of 14 characters'],
    [{ ISOLATES: '0' }, 'ISOLATES: must be a whole number from 1 to 1000000, not "0"'],
    [{ ISOLATES: '2.5' }, 'ISOLATES: must be a whole number from 1 to 1000000, not "2.5"'],
    [{ DEGRADED_HEADER: 'yes' }, 'DEGRADED_HEADER: must be "on" or "off", not "yes"'],
    [{ REGIONS: undefined }, 'REGIONS: is missing'],
    [{ REGIONS: '[{' }, 'REGIONS: must be JSON, not a text of 2 characters'],
    [{ ADMIN_TOKEN: undefined }, 'ADMIN_TOKEN: is missing, and so are ADMIN_TOKENS and ADMIN_ACCESS'],
    [{ ADMIN_TOKENS: 'x' }, 'ADMIN_TOKENS: must be JSON, not a text of 1 character'],
    [
      { ADMIN_TOKENS: JSON.stringify([{ name: 'ci', token: 'short' }]) },
      'ADMIN_TOKENS/0/token: must have at least 16 characters, not 5',
    ],
    [
      { ADMIN_TOKENS: JSON.stringify([{ name: 'admin', token: SECRET }]) },
      'ADMIN_TOKENS: has two tokens of one name (ADMIN_TOKEN is named admin)',
    ],
    [
      { ADMIN_ACCESS: JSON.stringify({ teamDomain: 'team', audience: 'x' }) },
      'ADMIN_ACCESS/teamDomain: must be https://TEAM.cloudflareaccess.com, not a text of 4 characters',
    ],
    ...['', ' ', 'https://admin.example.com', 'admin.example.com:8443', 'a.example.com/x', 'a b', '.'].map(
      (ADMIN_HOST): [Record<string, unknown>, string] => [
        { ADMIN_HOST },
        `ADMIN_HOST: must be a host name such as weir-admin.example.com, without scheme, port or path, not ${ADMIN_HOST.length < 16 ? `"${ADMIN_HOST}"` : `a text of ${ADMIN_HOST.length} characters`}`,
      ],
    ),
    [{ REGIONS: JSON.stringify([region, region]) }, 'REGIONS: has two regions of one name'],
    [{ REGIONS: JSON.stringify([{ ...region, token: '' }]) }, 'REGIONS/0/token: must not be empty'],
    [
      { REGIONS: JSON.stringify([{ ...region, share: 0 }]) },
      'REGIONS: must have at least one region with a share above 0',
    ],
    [{ REGIONS: '[]' }, 'REGIONS/0: is missing'],
    [
      { REGIONS: JSON.stringify([{ ...region, latitude: '39' }]) },
      'REGIONS/0/latitude: must be a number, not a text of 2 characters',
    ],
    [{ REGIONS: JSON.stringify([{ ...region, weight: 1 }]) }, 'REGIONS/0/weight: is not a field'],
    [{ REGIONS: JSON.stringify([{ ...region, share: -1 }]) }, 'REGIONS/0/share: must be at least 0, not -1'],
    [
      { REGIONS: JSON.stringify([region]).replace('1', '1e999') },
      'REGIONS/0/share: must be a number, not Infinity',
    ],
    [
      { REGIONS: JSON.stringify([region, { ...region, name: 'eu', url: SECRET }]) },
      'REGIONS/1/url: must be an https URL, not a text of 22 characters',
    ],
  ])('names the problem: %o', (changes, problem) =>
    expect(problemsOf(changes)).toEqual([
      typeof problem === 'string' ? problem : expect.stringMatching(problem),
    ]),
  );

  it('names all problems at once', () => {
    const problems = problemsOf({
      ORIGIN_URL: 'x',
      ENVIRONMENT: 'x',
      REGIONS: '[{"share":"x","latitude":"x"}]',
    });
    expect(problems.map((problem) => problem.split(':')[0])).toEqual([
      'REGIONS/0/url',
      'REGIONS/0/share',
      'REGIONS/0/latitude',
      'ENVIRONMENT',
      'ORIGIN_URL',
    ]);
  });

  it('needs neither name, share nor place of a single region, and all of them of several', () => {
    const { url, token } = region;
    const [only] = parse({ REGIONS: JSON.stringify([{ url, token }]) }).REGIONS;
    expect(only).toEqual({ url, token, name: 'main', share: 1, cluster: false, latitude: 0, longitude: 0 });
    expect(problemsOf({ REGIONS: JSON.stringify([region, { name: 'eu', url, token }]) })).toEqual([
      'REGIONS/1/latitude: is missing',
      'REGIONS/1/longitude: is missing',
    ]);
    expect(problemsOf({ REGIONS: JSON.stringify([region, { ...region, name: undefined }]) })).toEqual([]);
    const unnamed = { ...region, name: undefined };
    expect(problemsOf({ REGIONS: JSON.stringify([unnamed, unnamed]) })).toEqual([
      'REGIONS: has two regions of one name',
    ]);
  });
});

describe('an error', () => {
  const names = Object.keys(
    Object.assign({}, ...Object.values(variablesOf({})).filter((table) => typeof table === 'object')),
  ).filter((name) => /^[A-Z]/.test(name));

  it.each(names)('never quotes a text that could be a secret: %s', (name) => {
    const nested = JSON.stringify([{ url: SECRET, share: SECRET, name: SECRET, role: SECRET }]);
    const object = JSON.stringify({ algorithms: [SECRET], jwksUrl: SECRET, teamDomain: SECRET });
    for (const value of [SECRET, `https://user:${SECRET}@x.test:99999`, nested, object, `[${nested}`])
      expect(problemsOf({ [name]: value }).join()).not.toContain(SECRET);
  });

  const secrets = ['REGIONS', 'JWT_SECRET', 'ADMIN_TOKEN', 'ADMIN_TOKENS', 'DATABASE_URL', 'SUBJECTS_KEY'];
  it.each([...secrets, 'ALERT_WEBHOOK_SECRET'])('never quotes a short secret either: %s', (name) => {
    const problems = problemsOf({ [name]: 'hunter2' });
    expect(problems).toHaveLength(1);
    expect(problems.join()).not.toContain('hunter2');
  });
});

describe('Weir in another Worker', () => {
  it('needs no origin', () => {
    const { ORIGIN_URL: _, ...bindings } = env;
    expect(parseDeploymentConfig(bindings)).toMatchObject({
      DEADLINE_MS: 250,
      DATABASE_URL: env.DATABASE_URL,
    });
  });

  it('with rules in code needs nothing but the regions, which the code lists', () => {
    const { url, token } = region;
    expect(parseCoreConfig({}, [{ url, token }])).toMatchObject({ REGIONS: [{ name: 'main', url, token }] });
    expect(() => parseCoreConfig({}, [{ url: 'x', token }])).toThrow(
      'regions/0/url: must be an https URL, not a text of 1 character',
    );
  });
});
