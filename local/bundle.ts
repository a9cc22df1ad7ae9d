// The Worker as `wrangler deploy` would upload it.
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const WRANGLER = fileURLToPath(new URL('../node_modules/wrangler/bin/wrangler.js', import.meta.url));

const ENTRY = 'index.js';

/** Writes the modules to `folder`. */
export async function buildWorker(folder: string): Promise<void> {
  await promisify(execFile)(process.execPath, [WRANGLER, 'deploy', '--dry-run', '--outdir', folder], {
    cwd: ROOT,
    env: { ...process.env, WRANGLER_SEND_METRICS: 'false', NO_COLOR: '1' },
  });
}

/** Names of all modules, the entry first. */
export async function modulesIn(folder: string): Promise<string[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.js') && name !== ENTRY);
  return [ENTRY, ...names];
}
