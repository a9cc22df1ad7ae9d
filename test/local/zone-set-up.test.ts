// The set-ups that wrangler.toml shows as comments: without the `#`, wrangler accepts each of them.
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { runWrangler } from '../../local/bundle.ts';
import { createSharedParts } from '../shared/parts.ts';

const ZONE = 'routes = [{ pattern = "www.example.com/*", zone_name = "example.com" }]';
const DOMAIN = 'routes = [{ pattern = "api.example.com", custom_domain = true }]';
const SERVICE = ['[[services]]', 'binding = "API"', 'service = "my-api-worker"'];

let folder: string;
let shown: string;
let bundle: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weir-zone-'));
  shown = await readFile('wrangler.toml', 'utf8');
  bundle = await createSharedParts(inject('sharedParts')).worker();
});
afterAll(() => rm(folder, { recursive: true, force: true }));

interface SetUp {
  readonly lines: readonly string[];
  readonly originUrl: string;
}

/** Does what a reader does: removes the `#`, and sets the origin. */
function uncomment({ lines, originUrl }: SetUp): string {
  let text = shown.replace(/^# ORIGIN_URL = .*$/m, `ORIGIN_URL = "${originUrl}"`);
  for (const line of lines) {
    expect(text).toContain(`\n# ${line}\n`);
    text = text.replace(`\n# ${line}\n`, `\n${line}\n`);
  }
  return text;
}

/** Deploys an existing build. */
async function dryRun(name: string, text: string): Promise<string> {
  const config = join(folder, `${name}.toml`);
  const built = text
    .replace('main = "dist/index.js"', `main = ${JSON.stringify(join(bundle, 'index.js'))}`)
    .replace(/^\[build\]\n(?:.+\n)+/m, '');
  await mkdir(join(folder, 'assets'), { recursive: true });
  await writeFile(config, built);
  return runWrangler('deploy', '--dry-run', '--config', config, '--outdir', join(folder, name));
}

it('wrangler accepts a route of a zone that passes to its own origin, beside another Worker as an origin', async () => {
  const output = await dryRun('zone', uncomment({ lines: [ZONE, ...SERVICE], originUrl: 'pass' }));
  for (const said of ['env.ORIGIN_URL ("pass")', 'env.API (my-api-worker)', '--dry-run: exiting now.'])
    expect(output).toContain(said);
});

it('wrangler accepts a custom domain', async () => {
  const output = await dryRun('domain', uncomment({ lines: [DOMAIN], originUrl: 'service:API' }));
  expect(output).toContain('env.ORIGIN_URL ("service:API")');
});

it('wrangler refuses a bad route, so that the tests above mean something', async () => {
  const text = uncomment({ lines: [ZONE], originUrl: 'pass' }).replace('zone_name', 'zone_nam');
  await expect(dryRun('broken', text)).rejects.toThrow(/routes/);
});
