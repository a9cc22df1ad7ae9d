// What health reports about each part. Health distinguishes a script that does not run from a server that is down.
import { describe, expect, it } from 'vitest';
import { CounterStoreError } from '../../src/core/ports/region.ts';
import { createHealth } from '../../src/gateway/internal-handlers.ts';
import type { Services } from '../../src/gateway/services.ts';
import { createIncidentCounts } from '../../src/http/log.ts';
import { createRegion } from '../limiter/fake-regions.ts';
import { createSource, snapshotOf } from '../limiter/limiter-harness.ts';
import { openOrigins } from './origins-harness.ts';

type Probe = () => Promise<void>;
const SAID = 'ERR Error running script: @user_script:12: attempt to call a nil value';
const fine: Probe = async () => {};
const broken: Probe = () => Promise.reject(new CounterStoreError('script-failed', SAID));
const gone: Probe = () => Promise.reject(new CounterStoreError('unavailable', 'secret'));
const buggy: Probe = () => Promise.reject(new TypeError('secret'));

const LEASED = { counters: 2, units: 50 };

function open(
  probes: Readonly<Record<string, Probe>>,
  pingDatabase: Probe = fine,
  more: Partial<Services> = {},
) {
  const clock = { ms: 0 };
  let probed = 0;
  const regions = Object.entries(probes).map(([name, probe]) => {
    const region = createRegion(name, {});
    const store = {
      ...region.store,
      probe: () => {
        probed += 1;
        return probe();
      },
    };
    return { ...region, store };
  });
  const services: Partial<Services> = {
    regions: regions as unknown as Services['regions'],
    regionsOf: () => undefined,
    snapshots: createSource(),
    deadlineMs: 100,
    now: () => clock.ms,
    incidentCounts: createIncidentCounts(),
    origins: openOrigins(),
    limiter: { leased: () => LEASED } as Services['limiter'],
    pingDatabase,
    ...more,
  };
  const health = createHealth(services as Services);
  const ask = async () =>
    (await (await health(new Request('https://weir.test/'), { hasDetails: true })).json()) as object;
  return { ask, clock, probed: () => probed };
}

it.each([
  ['the settings enforce rules', false, false, { mode: 'on', by: 'settings' }],
  ['the settings only log', false, true, { mode: 'log', by: 'settings' }],
  ['a variable of the deployment only logs', true, false, { mode: 'log', by: 'ENFORCEMENT' }],
])('health says whether rules are enforced: %s', async (_, isLogOnly, published, enforcement) => {
  const snapshots = createSource({ current: () => ({ ...snapshotOf('v1'), isLogOnly: published }) });
  expect(await open({ us: fine }, fine, { isLogOnly, snapshots }).ask()).toMatchObject({ enforcement });
});

it('health shows the leases of the isolate', async () => {
  expect(await open({ us: fine }).ask()).toMatchObject({ isolate: { leases: LEASED } });
});

describe('a region', () => {
  it('that counts is ok', async () => {
    expect(await open({ us: fine }).ask()).toMatchObject({
      status: 'ok',
      parts: { rules: 'ok', 'redis:us': 'ok', postgres: 'ok' },
      errors: {},
    });
  });

  it('whose script does not run has its own state, with the message of the server', async () => {
    const { parts, errors, status } = (await open({ us: broken, eu: fine, ap: gone }).ask()) as Record<
      string,
      unknown
    >;
    expect(status).toBe('degraded');
    expect(parts).toMatchObject({ 'redis:us': 'script-failed', 'redis:eu': 'ok', 'redis:ap': 'down' });
    expect(errors).toEqual({ 'redis:us': SAID });
  });

  it.each([
    ['does not answer', gone],
    ['meets a bug', buggy],
  ])('that %s is down, and health shows nothing of the error', async (_, probe) => {
    const health = await open({ us: probe }).ask();
    expect(health).toMatchObject({ status: 'degraded', parts: { 'redis:us': 'down' }, errors: {} });
    expect(JSON.stringify(health)).not.toContain('secret');
  });

  it('is probed once a second, however often health is asked for', async () => {
    const { ask, clock, probed } = open({ us: broken });
    for (let i = 0; i < 5; i += 1) expect(await ask()).toMatchObject({ errors: { 'redis:us': SAID } });
    expect(probed()).toBe(1);
    clock.ms += 1_000;
    await ask();
    expect(probed()).toBe(2);
  });
});

it('health reports that Postgres is down', async () => {
  expect(await open({ us: fine }, gone).ask()).toMatchObject({ parts: { postgres: 'down' }, errors: {} });
});
