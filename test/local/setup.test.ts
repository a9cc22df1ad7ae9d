// `npm run setup` on the local stack, with a wrangler that only notes its arguments and input.
import { execFile } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { regionsVariable, startRegions } from '../../local/regions.ts';
import { editWranglerFile } from '../../local/setup/wrangler-file.ts';
import { createFreshDatabase, type FreshDatabase } from '../shared/database.ts';

const ROOT = new URL('../../', import.meta.url).pathname;
const WRANGLER = `#!/bin/sh
if [ "$1" = whoami ]; then
  echo "$@" > "$WEIR_TOLD/whoami"
  echo '{ "loggedIn": false }'
  exit \${WEIR_WHOAMI:-0}
fi
echo "$@" > "$WEIR_TOLD/arguments"
cat > "$WEIR_TOLD/input"
exit \${WEIR_EXIT:-0}
`;

/** The regions of these tests are on this machine, so they have no https. */
const wranglerFile = readFileSync(join(ROOT, 'wrangler.toml'), 'utf8').replace(
  '[vars]\n',
  '[vars]\nPLAIN_HTTP = "allow"\n',
);

const cleanup = new AsyncDisposableStack();
let folder: string;
let postgres: FreshDatabase;
let regions: readonly { readonly name: string; readonly url: string; readonly token: string }[];
let answers: Record<string, unknown>;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'weir-setup-'));
  cleanup.defer(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'bin'));
  writeFileSync(join(folder, 'bin/wrangler'), WRANGLER);
  chmodSync(join(folder, 'bin/wrangler'), 0o755);
  regions = JSON.parse(regionsVariable(await startRegions({ upstashPort: 0, redisPort: 0 }, cleanup)));
});
afterAll(() => cleanup.disposeAsync());
beforeEach(async () => {
  postgres = cleanup.use(await createFreshDatabase('empty'));
  writeFileSync(join(folder, 'wrangler.toml'), wranglerFile);
  for (const name of ['arguments', 'input', 'whoami']) rmSync(join(folder, name), { force: true });
  answers = {
    origin: 'https://api.example.com',
    databaseUrl: postgres.url,
    adminToken: 'a-token-of-more-than-16',
    regions: regions.map(({ name, url, token }) => ({ name, url, token, latitude: 1, longitude: 2 })),
    route: 'www.example.com/*',
    zone: 'example.com',
  };
});

interface Ran {
  readonly code: number;
  readonly out: string;
}
function setup(args: readonly string[], variables: Readonly<Record<string, string>> = {}): Promise<Ran> {
  writeFileSync(join(folder, 'answers.json'), JSON.stringify(answers));
  const script = join(ROOT, 'local/setup/setup.ts');
  const all = [script, '--file', 'answers.json', '--config', 'wrangler.toml', ...args];
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const env = { PATH: `${join(folder, 'bin')}:${PATH}`, NODE_COMPILE_CACHE, WEIR_TOLD: folder, ...variables };
  return new Promise((resolve) => {
    execFile(process.execPath, all, { cwd: folder, env }, (error, out, said) =>
      resolve({ code: error ? 1 : 0, out: out + said }),
    );
  });
}
const told = (name: string) => {
  const file = join(folder, name);
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
};
const tables = async () => {
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  const { rows } = await client.query(`select count(*)::int from pg_tables where schemaname = 'weir'`);
  await client.end();
  return rows[0].count as number;
};

it('the set-up writes public settings to wrangler.toml, hands secrets to wrangler alone, and migrates', async () => {
  const { code, out } = await setup(['--yes']);
  expect(out).toContain('Next: npm run deploy');
  expect(code).toBe(0);
  expect(out).toMatch(/^postgres +answers +ok +version \d+\.\d+/m);
  // The deadline of a decision has nothing to do with the distance from here.
  expect(out).toMatch(/^redis us +distance +ok +\d+ ms for a round trip from this machine$/m);
  const file = told('wrangler.toml') ?? '';
  expect(file).toContain('\nORIGIN_URL = "https://api.example.com"\n');
  expect(file).toContain('\nroutes = [{ pattern = "www.example.com/*", zone_name = "example.com" }]\n');
  expect(told('arguments')).toBe('secret bulk\n');
  const secrets = JSON.parse(told('input') ?? '') as Record<string, string>;
  expect(Object.keys(secrets)).toEqual(['REGIONS', 'DATABASE_URL', 'ADMIN_TOKEN']);
  expect(JSON.parse(secrets['REGIONS'] ?? '')).toMatchObject([{ share: 1 }, {}, {}]);
  expect(await tables()).toBeGreaterThan(10);
  for (const secret of ['a-token-of-more-than-16', postgres.url, regions[0]?.token ?? '']) {
    expect(file).not.toContain(secret);
    expect(out).not.toContain(secret);
  }
});

it('the set-up gives the page a host of its own, and asks the smoke test for it', async () => {
  answers = { ...answers, adminHost: 'Weir-Admin.Example.com' };
  const { out, code } = await setup(['--yes']);
  expect(code).toBe(0);
  const file = told('wrangler.toml') ?? '';
  expect(file).toContain('\nADMIN_HOST = "weir-admin.example.com"\n');
  expect(file).toContain(
    '\nroutes = [{ pattern = "www.example.com/*", zone_name = "example.com" }, { pattern = "weir-admin.example.com", custom_domain = true }]\n',
  );
  expect(out).toContain('npm run smoke -- https://weir-admin.example.com\n');
  expect(out).not.toContain('shares its host');
});

it('the set-up warns if the page shares its host with the API', async () => {
  expect((await setup(['--dry-run'])).out).toContain(
    'page      host of its own  warning  it shares its host',
  );
});

it.each([
  [
    { origin: 'pass', adminHost: 'admin.example.com' },
    'workers_dev = true\nroutes = [{ pattern = "admin.example.com", custom_domain = true }]\n',
  ],
  [
    { origin: 'pass', adminHost: 'weir.me.workers.dev', route: 'api.example.com' },
    'workers_dev = true\nroutes = [{ pattern = "api.example.com", custom_domain = true }]\n',
  ],
])('the set-up keeps workers.dev if the API or the page is there: %o', (settings, lines) => {
  const text = 'name = "weir"\n\n[vars]\nENVIRONMENT = "production"\n';
  expect(editWranglerFile(text, settings)).toBe(
    `name = "weir"\n${lines}\n[vars]\nENVIRONMENT = "production"\nORIGIN_URL = "pass"\nADMIN_HOST = "${settings.adminHost}"\n`,
  );
});

it('the set-up makes an admin token if none is given, and shows it once', async () => {
  answers = { ...answers, adminToken: undefined };
  const { out } = await setup(['--yes']);
  const { ADMIN_TOKEN = '' } = JSON.parse(told('input') ?? '') as Record<string, string>;
  expect(ADMIN_TOKEN).toMatch(/^[\w-]{32}$/);
  expect(out).toContain(`Keep the admin token, it is shown only now: ${ADMIN_TOKEN}\n`);
});

it('in a dry run, the set-up says what it would do, and does nothing', async () => {
  const { code, out } = await setup(['--dry-run']);
  expect(out).toContain('ORIGIN_URL = "https://api.example.com"');
  expect(out).toContain('set the secrets REGIONS, DATABASE_URL, ADMIN_TOKEN through wrangler');
  expect(out).toContain('nothing was changed: this was a dry run');
  expect(code).toBe(0);
  expect(told('wrangler.toml')).toBe(wranglerFile);
  expect(told('input')).toBeUndefined();
  expect(await tables()).toBe(0);
});

it('the set-up adds staging beside production', async () => {
  const { out, code } = await setup(['--yes', '--env', 'staging']);
  expect(out).toContain('Next: npm run deploy -- --env staging');
  expect(code).toBe(0);
  expect(told('arguments')).toBe('secret bulk --env staging\n');
  const [production, staging] = (told('wrangler.toml') ?? '').split('[env.staging]');
  expect(production).not.toContain('\nORIGIN_URL');
  expect(staging).toContain('\nORIGIN_URL = "https://api.example.com"\n');
  expect(staging).toContain('\nroutes = [{ pattern = "www.example.com/*", zone_name = "example.com" }]\n');
});

describe('nothing is changed', () => {
  const wrongToken = () => ({ regions: [{ ...(answers['regions'] as object[])[0], token: 'wrong' }] });
  it.each<[string, () => object, string]>([
    ['if a token of a region is wrong', wrongToken, 'redis us, distance: it does not answer'],
    [
      'if Postgres does not answer',
      () => ({ databaseUrl: 'postgres://a:b@127.0.0.1:9/c' }),
      'postgres, answers',
    ],
    [
      'if the origin is not an http URL',
      () => ({ origin: 'ftp://x' }),
      'the Worker would not start with this',
    ],
    ['if the regions are missing', () => ({ regions: undefined }), 'answers.json cannot be used:\n  regions'],
    [
      'if the admin host is no host name',
      () => ({ adminHost: 'https://a.example.com' }),
      'ADMIN_HOST: must be a host name',
    ],
    [
      'if the admin host is that of the API',
      () => ({ adminHost: 'WWW.example.com.' }),
      'adminHost: must be another host than that of the route',
    ],
    ['if the zone of a route is missing', () => ({ zone: undefined }), 'zone: is needed'],
  ])('%s', async (_, wrong, says) => {
    answers = { ...answers, ...wrong() };
    const { code, out } = await setup(['--yes']);
    expect(out).toContain(says);
    expect(code).toBe(1);
    expect(told('input')).toBeUndefined();
    expect(told('wrangler.toml')).toBe(wranglerFile);
  });

  it('if wrangler is not logged in, not even a service is asked', async () => {
    const before = told('wrangler.toml');
    const { code, out } = await setup(['--yes'], { WEIR_WHOAMI: '1' });
    expect(told('whoami')).toBe('whoami --json\n');
    expect(out).toBe(
      'weir: nothing was changed, because wrangler is not logged in to Cloudflare: run `npx wrangler login`, or set CLOUDFLARE_API_TOKEN\n',
    );
    expect(code).toBe(1);
    expect(told('input')).toBeUndefined();
    expect(told('wrangler.toml')).toBe(before);
  });

  it('in Postgres, if wrangler fails', async () => {
    const { code, out } = await setup(['--yes'], { WEIR_EXIT: '3' });
    expect(out).toContain('wrangler ended with 3: is `npx wrangler login` done?');
    expect(code).toBe(1);
    expect(await tables()).toBe(0);
  });
});

it('staging does not take the routes of production', async () => {
  // Wrangler inherits `routes`: without this line, a deployment of staging would take them over.
  const text = readFileSync(join(ROOT, 'wrangler.toml'), 'utf8');
  expect(text).toMatch(/^\[env\.staging\]\n(?:#.*\n)*routes = \[\]\n/m);
});

it('the set-up changes nothing when it runs a second time', async () => {
  await setup(['--yes']);
  const file = told('wrangler.toml');
  expect((await setup(['--yes'])).out).toContain('nothing, it is as it should be');
  expect(told('wrangler.toml')).toBe(file);
});

it('the set-up writes a custom domain as a route with custom_domain', () => {
  const text = 'name = "weir"\n\n[vars]\nENVIRONMENT = "production"\n';
  expect(editWranglerFile(text, { origin: 'pass', route: 'api.example.com' })).toBe(
    'name = "weir"\nroutes = [{ pattern = "api.example.com", custom_domain = true }]\n\n[vars]\nENVIRONMENT = "production"\nORIGIN_URL = "pass"\n',
  );
});
