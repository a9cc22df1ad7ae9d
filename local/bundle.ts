// The Worker as `wrangler deploy` would upload it.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const WRANGLER = fileURLToPath(new URL('../node_modules/wrangler/bin/wrangler.js', import.meta.url));

/** Writes the bundle to `folder` and returns what wrangler printed. */
export async function buildWorker(folder: string): Promise<string> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [WRANGLER, 'deploy', '--dry-run', '--outdir', folder],
    { cwd: ROOT, env: { ...process.env, WRANGLER_SEND_METRICS: 'false', NO_COLOR: '1' } },
  );
  return stdout;
}
