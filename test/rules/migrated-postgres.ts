// A dump of a Postgres with all migrations. To copy it takes a fifth of the time that it takes to make one, so it is
// made once and kept until a migration or PGlite is another.
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { PGlite } from '@electric-sql/pglite';
import { applyMigrations } from '../../local/migrations.ts';
import { startPgliteServer } from '../../local/postgres/pglite-server.ts';

const ROOT = new URL('../../', import.meta.url).pathname;
const MIGRATIONS = `${ROOT}drizzle/`;
const FOLDER = `${ROOT}node_modules/.cache/weir/`;

/** For `copyOf` of `startPostgres`. */
export async function migratedPostgres(): Promise<Blob> {
  const path = `${FOLDER}postgres-${fingerprint()}.tgz`;
  const kept = readIfPresent(path);
  if (kept) return toBlob(kept);
  const made = await makeDump();
  mkdirSync(FOLDER, { recursive: true });
  // Test files run side by side: none may see the half of what another one writes.
  writeFileSync(`${path}.${process.pid}`, made);
  renameSync(`${path}.${process.pid}`, path);
  return toBlob(made);
}

async function makeDump(): Promise<Uint8Array<ArrayBuffer>> {
  const db = await PGlite.create();
  const server = await startPgliteServer({ db, port: 0, label: 'Postgres', idleInTransactionMs: 60_000 });
  try {
    await applyMigrations(`postgres://postgres@127.0.0.1:${server.port}/postgres`);
    return new Uint8Array(await (await db.dumpDataDir('gzip')).arrayBuffer());
  } finally {
    await server.stop();
    await db.close();
  }
}

/** Of all that a dump is made from. */
function fingerprint(): string {
  const hash = createHash('sha256');
  const migrations = readdirSync(MIGRATIONS, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => `${parentPath}/${name}`);
  for (const file of [...migrations.sort(), `${ROOT}node_modules/@electric-sql/pglite/package.json`])
    hash.update(file.slice(ROOT.length)).update(readFileSync(file));
  return hash.digest('hex').slice(0, 16);
}

const toBlob = (bytes: Uint8Array<ArrayBuffer>) => new Blob([bytes], { type: 'application/x-gzip' });

function readIfPresent(path: string) {
  try {
    return new Uint8Array(readFileSync(path));
  } catch {
    return undefined;
  }
}
