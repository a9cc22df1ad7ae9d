// `npm run db:generate` reads all tables from the sources. If it missed some, it would write a migration that drops them.
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import config from '../../drizzle.config.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const DRIZZLE_KIT = join(ROOT, 'node_modules/drizzle-kit/bin.cjs');

it('finds no difference between the tables and the migrations', async () => {
  await mkdir(join(ROOT, '.weir'), { recursive: true });
  const folder = await mkdtemp(join(ROOT, '.weir/generate-'));
  try {
    const out = join(folder, 'drizzle');
    await cp(join(ROOT, 'drizzle'), out, { recursive: true });
    const before = await readdir(out);
    const copied = join(folder, 'drizzle.config.json');
    // drizzle-kit takes paths relative to the folder that it runs in.
    await writeFile(copied, JSON.stringify({ ...config, out: out.slice(ROOT.length).replace(/^\/?/, './') }));
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [DRIZZLE_KIT, 'generate', '--config', copied.slice(ROOT.length).replace(/^\//, '')],
      { cwd: ROOT },
    );
    expect(stdout).toContain('No schema changes');
    expect(await readdir(out)).toEqual(before);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
