// The parts that all test files of one run share, in a separate process. Each part is made when a file first asks for
// it, and all of them end with the run.
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { buildWorker } from '../../local/bundle.ts';
import { applyMigrations } from '../../local/migrations.ts';
import { listen } from '../../local/ports.ts';
import { startPostgres } from '../../local/postgres.ts';
import { startPostgresServer } from '../../local/postgres-server.ts';
import { startStack } from '../../local/stack.ts';

const TEMPLATE = 'migrated_template';
const ANY_PORTS = { origin: 0, upstash: 0, neon: 0, redis: 0, postgres: 0 };
const parts = new AsyncDisposableStack();

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => (made ??= make());
}

const worker = once(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'weir-worker-'));
  parts.defer(() => rm(folder, { recursive: true, force: true }));
  await buildWorker(folder);
  return folder;
});

const postgres = once(async () => {
  const server = await startPostgresServer({ say: (line) => console.log(line) });
  parts.defer(() => server.stop());
  const urlOf = (name: string) => server.url.replace(/[^/]*$/, name);
  const admin = new pg.Pool({ connectionString: server.url, max: 1 });
  parts.defer(() => admin.end());
  await admin.query(`create database ${TEMPLATE}`);
  await applyMigrations(urlOf(TEMPLATE));
  return { admin, urlOf };
});

const pgliteFolder = once(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'weir-pglite-'));
  parts.defer(() => rm(folder, { recursive: true, force: true }));
  const dataDir = join(folder, 'postgres');
  await (await startPostgres({ dataDir, port: 0 })).stop();
  return dataDir;
});

/** A copy of a database that has all migrations, or of an empty one. */
async function createDatabase(content: string): Promise<string> {
  const { admin, urlOf } = await postgres();
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await admin.query(`create database ${name} template ${content === 'empty' ? 'template1' : TEMPLATE}`);
  return urlOf(name);
}

async function dropDatabase(url: string): Promise<void> {
  const { admin } = await postgres();
  await admin.query(`drop database ${url.slice(url.lastIndexOf('/') + 1)} with (force)`);
}

/** The variables of a Worker, with everything around it. */
async function openStack() {
  const stack = await startStack({
    ports: ANY_PORTS,
    databaseUrl: await createDatabase('migrated'),
    say: () => {},
  });
  parts.use(stack);
  return stack.variables;
}

const ROUTES: Readonly<Record<string, (argument: string) => Promise<unknown>>> = {
  worker,
  createDatabase,
  dropDatabase,
  openStack,
  pgliteFolder,
};

const server = createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://localhost');
  try {
    const answer = await ROUTES[pathname.slice(1)]?.(searchParams.get('argument') ?? '');
    response.end(JSON.stringify(answer ?? null));
  } catch (error) {
    response.writeHead(500).end(error instanceof Error ? error.message : String(error));
  }
});
const port = await listen(server, 0, 'the shared parts of the tests');
process.once('disconnect', async () => {
  await parts.disposeAsync();
  process.exit(0);
});
process.send?.(`http://127.0.0.1:${port}`);
