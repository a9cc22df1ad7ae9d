// Weir as deployed, on `workerd serve` with nothing in front of it, so that the Worker sees what a client does to its
// connection. Around it are three regions, Postgres and a demo origin of the test.
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inject } from 'vitest';
import { bundleOthers, weirModulesIn } from '../../bench/gateway/arena.ts';
import { serveWorkers } from '../../bench/gateway/workerd.ts';
import { readCompatibility } from '../../local/isolates.ts';
import { type Origin, startOrigin } from '../../local/origin.ts';
import type { LocalRegion } from '../../local/regions.ts';
import { startStack } from '../../local/stack.ts';
import { createFreshDatabase } from '../shared/database.ts';
import { createSharedParts } from '../shared/parts.ts';

const ADMIN_TOKEN = 'an-admin-token-for-tests';

export interface Ask {
  readonly ip: string;
  readonly method?: string;
  readonly region?: string;
  readonly headers?: Record<string, string>;
}

export interface ServedWeir extends AsyncDisposable {
  readonly origin: Origin;
  readonly regions: readonly LocalRegion[];
  /** On its own connection, so that the test can break it. */
  ask(path: string, ask: Ask): ClientRequest;
  status(path: string, ask: Ask): Promise<number>;
  /** `path` is the part after /_weir/admin. */
  admin<T = Record<string, never>>(path: string, body: object): Promise<T>;
}

export async function serveWeir(variables: Record<string, string> = {}): Promise<ServedWeir> {
  await using cleanup = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'weir-served-'));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  await cp(await createSharedParts(inject('sharedParts')).worker(), join(folder, 'weir'), {
    recursive: true,
  });
  const modules = await weirModulesIn(folder);
  await bundleOthers(folder, ['kv']);
  const origin = await startOrigin();
  cleanup.defer(() => origin.stop());
  const ports = { origin: 0, upstash: 0, neon: 0, redis: 0, postgres: 0 };
  const { url: databaseUrl } = cleanup.use(await createFreshDatabase());
  const stack = cleanup.use(await startStack({ ports, databaseUrl, originUrl: origin.url, say: () => {} }));
  const kv = {
    modules: [{ name: 'index.js', type: 'esModule', path: 'worker-kv.js' }],
    variables: {},
  } as const;
  const weir = {
    modules,
    // All parts share this machine, and the deadline is not the subject of these tests.
    variables: { ...stack.variables, ADMIN_TOKEN, DEADLINE_MS: '10000', ...variables },
    kv: { RULES: 'kv' },
  };
  const workers = [
    { name: 'weir', ...weir },
    { name: 'kv', ...kv },
  ];
  const compatibility = await readCompatibility();
  const { urls } = cleanup.use(await serveWorkers({ folder, compatibility, workers }));

  const ask = (path: string, { ip, method = 'GET', region = 'us', headers }: Ask) => {
    const sent = { 'CF-Connecting-IP': ip, 'X-Weir-Region': region, ...headers };
    const asked = request(`${urls['weir']}${path}`, { method, headers: sent, agent: new Agent() });
    asked.on('error', () => {});
    asked.end();
    return asked;
  };

  const owned = cleanup.move();
  return {
    origin,
    regions: stack.regions,
    ask,
    status: (path, asked) =>
      new Promise((resolve, reject) => {
        const sent = ask(path, asked);
        sent.once('error', reject);
        sent.once('response', (answer: IncomingMessage) => {
          answer.resume();
          answer.once('end', () => resolve(answer.statusCode ?? 0));
        });
        sent.once('upgrade', (answer: IncomingMessage, socket) => {
          socket.destroy();
          resolve(answer.statusCode ?? 0);
        });
      }),
    async admin<T>(path: string, body: object) {
      const answer = await fetch(`${urls['weir']}/_weir/admin${path}`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${ADMIN_TOKEN}`, 'Content-Type': 'application/json' },
        body: JSON.stringify(body),
      });
      if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
      return (await answer.json()) as T;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
