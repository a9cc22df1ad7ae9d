// What the tests of this folder share: the Worker under test, and switches of the stack around it.
import { env, exports } from 'cloudflare:workers';
import { sumCalls } from '../../local/upstash-gateway/billing.ts';

interface LocalRegion {
  readonly name: string;
  readonly url: string;
  readonly token: string;
}

const variables = env as unknown as Record<string, string>;
export const regions: readonly LocalRegion[] = JSON.parse(variables['REGIONS'] ?? '[]');
export const kv = (env as { RULES: KVNamespace }).RULES;

let lastIp = 0;
/** An IP address that no other test has used: a fresh subject. */
export function freshIp(): string {
  lastIp += 1;
  return `10.${Math.floor(Math.random() * 250)}.${Math.floor(lastIp / 250)}.${lastIp % 250}`;
}

export interface Call {
  readonly ip?: string;
  readonly region?: string;
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: BodyInit;
}

export function call(
  path: string,
  { ip = freshIp(), region = 'us', headers, ...init }: Call = {},
): Promise<Response> {
  return exports.default.fetch(`https://weir.test${path}`, {
    ...init,
    headers: { 'CF-Connecting-IP': ip, 'X-Weir-Region': region, ...headers },
    redirect: 'manual',
  });
}

export const admin = { Authorization: `Bearer ${variables['ADMIN_TOKEN']}` };

export async function redis(region: string, ...command: (string | number)[]): Promise<unknown> {
  const { url, token } = regionNamed(region);
  const answer = await fetch(url, {
    method: 'POST',
    headers: { Authorization: `Bearer ${token}` },
    body: JSON.stringify(command),
  });
  return ((await answer.json()) as { result: unknown }).result;
}

/** Commands that Upstash would bill, by their purpose. Read at one moment, because isolates go on working meanwhile. */
export async function billed(region: string) {
  const stats = String(await redis(region, 'INFO', 'commandstats'));
  const calls = (name: string) =>
    Number(new RegExp(`^cmdstat_${name}:calls=(\\d+)`, 'm').exec(stats)?.[1] ?? 0);
  // Each run of the script reads its counters once. All other reads are of the announcement.
  const announcements = calls('get') + calls('mget') - calls('evalsha');
  // About once a minute, after a response: see redis/census.test.ts.
  const census = CENSUS_COMMANDS * calls('zadd');
  // Also after a response: EVAL, SET and HMGET each time, the rest now and then. See redis/metrics-store.test.ts.
  const metrics = 3 * calls('hmget') + calls('hlen') + calls('hset') + calls('pexpire') - calls('zadd');
  return { announcements, requests: sumCalls(stats) - announcements - census - metrics };
}

const CENSUS_COMMANDS = 6;

/** Breaks a region while `during` runs. */
export async function withFault(region: string, fault: object, during: () => Promise<void>): Promise<void> {
  const endpoint = `${regionNamed(region).url}/_gateway/faults`;
  await fetch(endpoint, { method: 'PUT', body: JSON.stringify(fault) });
  try {
    await during();
  } finally {
    await fetch(endpoint, { method: 'DELETE' });
  }
}

function regionNamed(name: string): LocalRegion {
  const region = regions.find((candidate) => candidate.name === name);
  if (!region) throw new Error(`no region ${name}`);
  return region;
}

/** Runs SQL on the real Postgres, through the same gateway as the Worker. */
export async function sql(query: string, params: unknown[] = []): Promise<unknown[]> {
  const answer = await fetch(variables['DATABASE_HTTP_ENDPOINT'] ?? '', {
    method: 'POST',
    headers: { 'Neon-Connection-String': variables['DATABASE_URL'] ?? '' },
    body: JSON.stringify({ query, params }),
  });
  if (!answer.ok) throw new Error(await answer.text());
  return ((await answer.json()) as { rows: unknown[] }).rows;
}
