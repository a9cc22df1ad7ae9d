// The wrangler configuration of `npm run dev`: wrangler.toml, plus a binding to the demo Worker, and bundled by wrangler.
// No deployed file may have that binding, so this one is written when `npm run dev` starts.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DEMO_BINDING, DEMO_WORKER } from './demo-worker/miniflare.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** The paths of all configurations for wrangler, Weir's own first. */
export async function writeDevConfigs(folder: string): Promise<readonly string[]> {
  const config = join(folder, 'wrangler.toml');
  await writeFile(config, bindDemoWorker(await readFile(join(ROOT, 'wrangler.toml'), 'utf8')));
  return [config, join(ROOT, 'local/demo-worker/wrangler.toml')];
}

/** Paths in the file are relative to its folder, and the copy is in another folder. */
function bindDemoWorker(text: string): string {
  const absolute = (path: string) => JSON.stringify(join(ROOT, path));
  const moved = text
    .replace(/^main = "(.*)"$/m, (_, main: string) => `main = ${absolute(main)}`)
    .replace(
      /^watch_dir = \["src", "lua", "page"\]$/m,
      `cwd = ${absolute('.')}\nwatch_dir = [${['src', 'lua', 'page'].map(absolute).join(', ')}]`,
    )
    // wrangler reads the rest of unread request bodies only for Workers that it bundles. Without that, workerd closes the
    // connection after such a request (a denied POST), and wrangler's proxy answers the next one with 500.
    .replace(/^no_bundle = true$/m, '')
    .replace(/^directory = "assets"$/m, `directory = ${absolute('assets')}`);
  return `${moved}\n[[services]]\nbinding = "${DEMO_BINDING}"\nservice = "${DEMO_WORKER}"\n`;
}
