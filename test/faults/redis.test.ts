// Every fault of the catalogue, in the nearest region and in all of them, under steady load: what clients get
// meanwhile, how late, and how soon everything recovers.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  healRegion,
  type RegionFault,
  type RegionFaultName,
  regionFaults,
} from '../../local/fault-catalogue.ts';
import { freshIp, type IsolateName, REGIONS } from '../../local/weir.ts';
import { isLong } from '../rounds.ts';
import type { Answer, Load } from './client.ts';
import {
  addRuleOfEachKind,
  admitted,
  DEADLINE_MS,
  expectSoon,
  type FaultStack,
  healthOf,
  type Kind,
  LIMIT,
  latestMs,
  mixedLoad,
  ofPath,
  PART,
  playAgainAfterStandstill,
  recover,
  startFaultStack,
} from './harness.ts';

const ISOLATES: readonly IsolateName[] = ['one', 'two'];
const NEAREST = ['us'];
/** For each isolate, more than it takes to use up a limit, and to open its breakers. */
const REQUESTS = 72;
const LOAD_MS = { usual: 1_200, slow: 1.2 * DEADLINE_MS };
/** One of each kind that the Worker can tell apart. A test of the gateway covers the others. */
const OF_EACH_KIND: readonly RegionFaultName[] = [
  'redis-killed',
  'redis-frozen',
  'connection-refused',
  'reset-mid-reply',
  'status-500',
  'garbage',
  'out-of-memory',
];
/** The isolate learns nothing of these before the deadline. */
const SLOW: readonly RegionFaultName[] = ['redis-frozen', 'slow', 'slow-at-random', 'hang'];

const faults = regionFaults({ slowMs: 2 * DEADLINE_MS });
const isPartial = ({ name }: RegionFault) => name === 'slow-at-random';
const isTold = ({ name }: RegionFault) => isLong || OF_EACH_KIND.includes(name);
const total = faults.filter((fault) => !fault.isInstant && !isPartial(fault) && isTold(fault));
const partial = faults.filter(isPartial);

let stack: FaultStack;
let healthy: Load;
beforeAll(async () => {
  stack = await startFaultStack();
  await addRuleOfEachKind(stack.weir);
  await recover({ client: stack.client, isolates: ISOLATES });
  healthy = await load(freshSubjects());
});
afterAll(() => stack?.[Symbol.asyncDispose]());

const freshSubjects = (): Record<Kind, string> => ({
  open: freshIp(),
  local: freshIp(),
  closed: freshIp(),
  roomy: freshIp(),
});
const load = (subjects: Record<Kind, string>, ms = LOAD_MS.usual) =>
  stack.client.load({ perSecond: (1_000 * REQUESTS) / ms, ms, next: mixedLoad(subjects, ISOLATES) });

interface Faulty extends Load {
  /**
   * The last answer of each isolate, sent after all others were answered. By then it knows of the fault, however busy
   * the machine is.
   */
  readonly last: readonly Answer[];
  /** How many isolates each isolate assumed during the fault. No region could report another number. */
  readonly census: readonly number[];
}

const loadDuring = (fault: RegionFault, regions: readonly string[]): Promise<Faulty> =>
  playAgainAfterStandstill(
    () => loadOnceDuring(fault, regions),
    () => recover({ client: stack.client, isolates: ISOLATES }),
  );

/** The whole load falls within the fault. */
async function loadOnceDuring(fault: RegionFault, regions: readonly string[]): Promise<Faulty> {
  const places = regions.map((name) => stack.weir.region(name));
  const ask = async () => {
    await Promise.all(places.map((place) => fault.begin(place)));
    const seen = await load(freshSubjects(), SLOW.includes(fault.name) ? LOAD_MS.slow : LOAD_MS.usual);
    const last = await Promise.all(ISOLATES.map((isolate) => stack.client.ask({ path: '/roomy', isolate })));
    return { ...seen, last };
  };
  const seen = await ask().finally(() => Promise.all(places.map(healRegion)));
  return { ...seen, census: await Promise.all(ISOLATES.map(isolatesInUs)) };
}

const isolatesInUs = async (isolate: IsolateName) =>
  (await healthOf(stack.weir, isolate)).isolate.isolates['us'] ?? 1;

function expectInTime(seen: Load): void {
  const { answers, errors } = seen;
  expect(errors).toEqual([]);
  expect(answers).toHaveLength(REQUESTS);
  const unfit = answers.filter(({ status, ask }) => status >= 500 && ask.path !== '/closed');
  expect(unfit).toEqual([]);
  expect(seen.slowestMs).toBeLessThanOrEqual(latestMs(seen, healthy));
}

async function expectRecovery(regions: readonly string[]): Promise<void> {
  const { client } = stack;
  expectSoon(await recover({ client, isolates: ISOLATES, regions }));
  const ip = freshIp();
  for (const [used, isolate] of ISOLATES.entries()) {
    const { status, header } = await client.ask({ path: '/open', isolate, ip });
    const left = PART - used - 1;
    expect([status, header('X-RateLimit-Remaining')]).toEqual([200, String(left)]);
    expect(header('RateLimit')).toMatch(new RegExp(`^"open-ip";r=${left};t=\\d+$`));
    expect(header('RateLimit-Policy')).toBe(`"open-ip";q=${LIMIT};w=86400`);
  }
}

const reasonsOf = (answers: readonly Answer[], isolate: IsolateName) =>
  new Set(answers.filter(({ ask }) => ask.isolate === isolate).map(({ degraded }) => degraded));
const expectOpenBreakers = ({ answers, last }: Faulty) => {
  for (const isolate of ISOLATES) expect(reasonsOf([...answers, ...last], isolate)).toContain('breaker-open');
};

it('without a fault, the whole load is counted', () => {
  expect(healthy.errors).toEqual([]);
  expect(healthy.answers.map(({ degraded }) => degraded)).toEqual(healthy.answers.map(() => undefined));
  for (const kind of ['open', 'local', 'closed'])
    expect(admitted(ofPath(healthy.answers, `/${kind}`))).toBe(PART);
});

describe.sequential('in the nearest region', () => {
  it.each(total)('$name: the next region counts exactly', async (fault) => {
    const seen = await loadDuring(fault, NEAREST);
    expectInTime(seen);
    for (const kind of ['open', 'local', 'closed'])
      expect(admitted(ofPath(seen.answers, `/${kind}`))).toBe(PART);
    for (const { status, fallback, header } of seen.answers) {
      expect([200, 429]).toContain(status);
      if (status === 200) expect(fallback).toBe('next-region');
      expect(header('RateLimit')).toBeDefined();
    }
    expectOpenBreakers(seen);
    await expectRecovery(NEAREST);
  });

  it.each(partial)('$name: the nearest region counts, or the next one does', async (fault) => {
    const seen = await loadDuring(fault, NEAREST);
    expectInTime(seen);
    for (const kind of ['open', 'local', 'closed'])
      expect(admitted(ofPath(seen.answers, `/${kind}`))).toBeLessThanOrEqual(2 * PART);
    for (const { status, fallback } of seen.answers) {
      expect([200, 429]).toContain(status);
      expect([undefined, 'next-region']).toContain(fallback);
    }
    await expectRecovery(NEAREST);
  });
});

describe.sequential('in all regions', () => {
  /** The allowance of each rule in each isolate. The number of isolates is the last one from the nearest region. */
  const allowances = ({ census }: Faulty) =>
    census.map((us) => ({ open: LIMIT, local: Math.max(1, Math.floor(PART / us)), closed: 0 }));
  const admittedBy = (answers: readonly Answer[]) =>
    ISOLATES.map((isolate) => {
      const own = answers.filter(({ ask }) => ask.isolate === isolate);
      const of = (kind: Kind) => admitted(ofPath(own, `/${kind}`));
      return { open: of('open'), local: of('local'), closed: of('closed') };
    });

  it.each(total)('$name: each isolate admits what its rules allow', async (fault) => {
    const seen = await loadDuring(fault, REGIONS);
    expectInTime(seen);
    expect(admittedBy(seen.answers)).toEqual(allowances(seen));
    for (const { status, fallback, header, ask } of seen.answers) {
      const isClosed = ask.path === '/closed';
      if (isClosed) expect([status, header('Retry-After'), fallback]).toEqual([503, '5', 'closed']);
      else expect(fallback).toBe(ask.path === '/local' ? 'local' : 'open');
      if (status === 429) expect(Number(header('Retry-After'))).toBeGreaterThan(0);
      expect(header('RateLimit')).toBeUndefined();
    }
    expectOpenBreakers(seen);
    await expectRecovery(REGIONS);
  });

  it.each(partial)('$name: a region counts, or an isolate admits what its rules allow', async (fault) => {
    const seen = await loadDuring(fault, REGIONS);
    expectInTime(seen);
    const most = LIMIT + ISOLATES.length * LIMIT;
    for (const kind of ['open', 'local'])
      expect(admitted(ofPath(seen.answers, `/${kind}`))).toBeLessThanOrEqual(most);
    expect(admitted(ofPath(seen.answers, '/closed'))).toBeLessThanOrEqual(LIMIT);
    await expectRecovery(REGIONS);
  });
});

describe.sequential('in all regions, but over in a moment', () => {
  const USED = 1;
  it.each([
    { name: 'redis-restarted-empty', left: PART },
    { name: 'scripts-flushed', left: PART - USED },
  ])('$name: only the counts that Redis has lost are lost', async ({ name, left }) => {
    const subjects = freshSubjects();
    for (let i = 0; i < USED; i += 1) await stack.client.ask({ path: '/open', ip: subjects.open });
    const fault = faults.find((candidate) => candidate.name === name);
    for (const region of REGIONS) await fault?.begin(stack.weir.region(region));
    const seen = await load(subjects);
    expectInTime(seen);
    expect(seen.answers.filter(({ degraded }) => degraded !== undefined)).toEqual([]);
    expect(admitted(ofPath(seen.answers, '/open'))).toBe(left);
    for (const kind of ['local', 'closed']) expect(admitted(ofPath(seen.answers, `/${kind}`))).toBe(PART);
  });
});
