// Bundles the page's script and style into assets/. Workers Static Assets serves them from there, beside the Worker.
import { randomUUID } from 'node:crypto';
import { readdir, rename, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
export const ASSETS = join(ROOT, 'assets');
const FOLDER = join(ASSETS, '_weir/page');

export async function buildPage(): Promise<void> {
  const { outputFiles } = await build({
    absWorkingDir: ROOT,
    entryPoints: ['page/app.ts', 'page/style.css'],
    outdir: FOLDER,
    bundle: true,
    // The code that draws curves is a file of its own. The page loads it with the first curve.
    splitting: true,
    format: 'esm',
    target: ['es2023', 'chrome120', 'firefox121', 'safari17.2'],
    minify: true,
    chunkNames: 'part-[hash]',
    write: false,
  });
  await replaceFiles(FOLDER, outputFiles, (name) => /^part-.*\.js$/.test(name));
}

interface BuiltFile {
  readonly path: string;
  readonly contents: Uint8Array;
}

/**
 * Another build may read these files at the same time, so each is replaced as a whole. Removes old files that `isStale`
 * names.
 */
export async function replaceFiles(
  folder: string,
  files: readonly BuiltFile[],
  isStale: (name: string) => boolean,
): Promise<void> {
  for (const { path, contents } of files) {
    // The name begins with a dot, so that no other build takes the draft for a file of the page.
    const draft = join(folder, `.${basename(path)}.${randomUUID()}.draft`);
    await writeFile(draft, contents);
    await rename(draft, path);
  }
  const built = new Set(files.map(({ path }) => basename(path)));
  const stale = (await readdir(folder)).filter((name) => !built.has(name) && isStale(name));
  for (const name of stale) await rm(join(folder, name), { recursive: true, force: true });
}
