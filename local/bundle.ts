// Builds the Worker as `wrangler deploy` would upload it.
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const WRANGLER = fileURLToPath(new URL('../node_modules/wrangler/bin/wrangler.js', import.meta.url));

const ENTRY = 'index.js';

/** Resolves to the output of wrangler. */
export async function runWrangler(...args: string[]): Promise<string> {
  const env = { ...process.env, WRANGLER_SEND_METRICS: 'false', NO_COLOR: '1' };
  const { stdout } = await promisify(execFile)(process.execPath, [WRANGLER, ...args], { cwd: ROOT, env });
  return stdout;
}

/** Writes the modules to `folder`, and the one file that holds all of them for the upload. */
export async function buildWorker(folder: string): Promise<void> {
  await runWrangler('deploy', '--dry-run', '--outdir', folder, '--outfile', uploadIn(folder));
}

export const uploadIn = (folder: string): string => join(folder, 'worker.bundle');

/** The names of all modules, the entry first. */
export async function modulesIn(folder: string): Promise<string[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.js') && name !== ENTRY);
  return [ENTRY, ...names];
}
