// What the route of checks answers if a check cannot be made: a client must know whether to come back.
import { expect, it } from 'vitest';
import { createChargeIds } from '../../src/checks/charge-id.ts';
import type { CheckOptions } from '../../src/checks/checks.ts';
import { createCheckRoute } from '../../src/checks/route.ts';
import type { CheckRecords } from '../../src/core/ports/region.ts';
import type { Services } from '../../src/gateway/services.ts';
import { createRegion } from '../limiter/fake-regions.ts';
import { createSource } from '../limiter/limiter-harness.ts';
import { SILENT, SILENT_LOG } from '../telemetry/silent.ts';

const SECRET = 'a secret of thirty-two characters';

/** A Weir that only reads the records of earlier checks. */
function routeWith(claim: CheckRecords['claim']) {
  const checkRecords = { claim, write: async () => {}, drop: async () => {} };
  return routeIn([{ name: 'us', share: 1, checkRecords }]);
}

function routeIn(checkRegions: CheckOptions['regions']) {
  const regions = checkRegions.map(({ name }) => createRegion(name, {}));
  const services = {
    check: { secret: SECRET, tokens: [], regions: checkRegions },
    ...{ regions, regionsOf: () => regions, snapshots: createSource(), log: SILENT_LOG, telemetry: SILENT },
    ...{ deadlineMs: 100, now: () => 0, identity: { ipv6Prefix: 64 } },
    guardAttempt: async () => ({ kind: 'actor', role: 'check' }),
  };
  const route = createCheckRoute(services as unknown as Services);
  return async (path: string, body: string) => {
    const headers = { Authorization: 'Bearer a-token' };
    const request = new Request(`https://weir.test/_weir/check${path}`, { method: 'POST', headers, body });
    const answer = await route(request, () => {});
    const { code } = (answer.status === 204 ? {} : await answer.json()) as { code?: string };
    return [answer.status, code, answer.headers.get('Retry-After')];
  };
}
const chargeIn = (region: string) => ({
  region,
  check: {
    ...({ key: 'weir:{user:=ann}', id: 'counter1', algorithm: 'fixed-window', limit: 10 } as const),
    ...{ windowMs: 60_000, cost: 1, chargedAtMs: 0 },
  },
});

const call = JSON.stringify({ rule: 'jobs', subject: 'ann', idempotencyKey: 'order 7' });

it('says when to come back if the first call with its key is still in progress', async () => {
  // Another isolate has claimed the same record.
  expect(await routeWith(async (_, value) => value)('', call)).toEqual([409, 'in-progress', '1']);
});

it('says when to come back if the region of its record does not answer', async () => {
  const ask = routeWith(() => Promise.reject(new Error('lost')));
  expect(await ask('', call)).toEqual([503, 'counters-unavailable', '1']);
});

it('does not ask to come back if the same call would fail again', async () => {
  const ask = routeWith(async () => undefined);
  expect(await ask('', '{')).toEqual([400, 'invalid-json', null]);
  expect(await ask('', '{}')).toEqual([400, 'invalid-body', null]);
  expect(await ask('/refund', JSON.stringify({ id: 'x.y' }))).toEqual([404, 'unknown-check', null]);
  expect(await ask('/other', '{}')).toEqual([404, 'not-found', null]);
});

it('gives no charge back twice when the shares of regions change in between', async () => {
  const names = ['us', 'eu'];
  const spent = new Map(names.map((name) => [name, new Set<string>()]));
  const routeWithShares = (shares: readonly number[]) =>
    routeIn(
      names.map((name, i) => ({
        name,
        share: shares[i] ?? 0,
        checkRecords: {
          claim: async (id) => (spent.get(name)?.has(id) ? 'spent' : void spent.get(name)?.add(id)),
          write: async () => {},
          drop: async () => {},
        },
      })),
    );
  const [before, after] = [routeWithShares([9, 1]), routeWithShares([0, 1])];
  for (let i = 0; i < 10; i += 1) {
    const id = await createChargeIds(SECRET).write([chargeIn(names[i % 2] ?? '')]);
    expect((await before('/refund', JSON.stringify({ id })))[0]).toBe(204);
    expect((await after('/refund', JSON.stringify({ id })))[0]).toBe(409);
  }
});
