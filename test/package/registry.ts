// A registry on loopback: verdaccio, with npm's configured registry behind it.
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort, LOOPBACK } from '../../local/ports.ts';
import { runNpm } from './consumer.ts';

/** Not a dependency of Weir, because it brings 300 other packages. */
const VERDACCIO = '6.10.4';
/** One of these packages asks for a tag of node-fetch that not every mirror has. */
const OVERRIDES = { 'node-fetch': '2.7.0' };
const START_MS = 60_000;

export interface Registry extends AsyncDisposable {
  readonly url: string;
}

export async function startRegistry(): Promise<Registry> {
  await using cleanup = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'weir-registry-'));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  const manifest = { private: true, dependencies: { verdaccio: VERDACCIO }, overrides: OVERRIDES };
  await writeFile(join(folder, 'package.json'), JSON.stringify(manifest));
  await runNpm(folder, 'install', '--no-audit', '--no-fund');
  const { stdout } = await runNpm(folder, 'config', 'get', 'registry');
  await writeFile(join(folder, 'config.yaml'), configOf(folder, stdout.trim()));

  const url = `http://${LOOPBACK}:${await freePort()}/`;
  const verdaccio = join(folder, 'node_modules/verdaccio/bin/verdaccio');
  const args = [verdaccio, '--config', join(folder, 'config.yaml'), '--listen', url];
  const server = spawn(process.execPath, args, { cwd: folder, stdio: 'ignore' });
  const ended = new Promise((resolve) => server.once('exit', resolve));
  cleanup.defer(async () => {
    server.kill();
    await ended;
  });
  await untilUp(url);
  const owned = cleanup.move();
  return { url, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Anybody may publish, because the registry is on loopback and lives only as long as a test. */
const configOf = (folder: string, behind: string) => `
storage: ${folder}/storage
uplinks:
  behind: { url: ${behind}, timeout: 60s }
packages:
  'weir': { access: $all, publish: $all }
  '**': { access: $all, proxy: behind }
log: { type: stdout, level: fatal }
`;

async function untilUp(url: string): Promise<void> {
  const giveUpAt = Date.now() + START_MS;
  while (Date.now() < giveUpAt) {
    const answer = await fetch(`${url}-/ping`).catch(() => undefined);
    await answer?.body?.cancel();
    if (answer?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error('verdaccio does not answer');
}
