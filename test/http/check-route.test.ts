// What the route of checks answers if a check cannot be made: a client must know whether to come back.
import { expect, it } from 'vitest';
import { createCheckRoute } from '../../src/checks/route.ts';
import type { CheckRecords } from '../../src/core/ports/region.ts';
import type { Services } from '../../src/gateway/services.ts';
import { createRegion } from '../limiter/fake-regions.ts';
import { createSource } from '../limiter/limiter-harness.ts';
import { SILENT, SILENT_LOG } from '../telemetry/silent.ts';

const SECRET = 'a secret of thirty-two characters';

/** A Weir that only reads the records of earlier checks. */
function routeWith(claim: CheckRecords['claim']) {
  const regions = [createRegion('us', {})] as const;
  const checkRecords = { claim, write: async () => {}, drop: async () => {} };
  const services = {
    check: { secret: SECRET, tokens: [], regions: [{ name: 'us', share: 1, checkRecords }] },
    ...{ regions, regionsOf: () => regions, snapshots: createSource(), log: SILENT_LOG, telemetry: SILENT },
    ...{ deadlineMs: 100, now: () => 0, identity: { ipv6Prefix: 64 } },
    guardAttempt: async () => ({ kind: 'actor', role: 'check' }),
  };
  const route = createCheckRoute(services as unknown as Services);
  return async (path: string, body: string) => {
    const headers = { Authorization: 'Bearer a-token' };
    const request = new Request(`https://weir.test/_weir/check${path}`, { method: 'POST', headers, body });
    const answer = await route(request, () => {});
    const { code } = (await answer.json()) as { code: string };
    return [answer.status, code, answer.headers.get('Retry-After')];
  };
}
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
