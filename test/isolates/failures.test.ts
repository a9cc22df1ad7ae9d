// Whatever Weir does besides passing a request on may fail without a client noticing. Each function that the gateway,
// the front door and the origins import, and each method of each service, fails once in each way, in a real isolate:
// the client gets the answer of the origin, the failure is logged once, nothing is charged twice, and no seat is kept.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Call, freshIp, startWeir, type Weir } from '../../local/weir.ts';
import { createFreshDatabase } from '../shared/database.ts';
import { buildFaultyWorker } from './faulty/build.ts';
import { type Called, type Fault, SECRET } from './faulty/runtime.ts';

const LIMIT = 100;
const DENIED_IP = '203.0.113.77';
const BODY = 'x'.repeat(40_000);

const cleanup = new AsyncDisposableStack();
let weir: Weir;
let apiKey: string;
beforeAll(async () => {
  const bundle = await mkdtemp(join(tmpdir(), 'weir-faulty-'));
  cleanup.defer(() => rm(bundle, { recursive: true, force: true }));
  await buildFaultyWorker(bundle);
  const { url } = cleanup.use(await createFreshDatabase());
  weir = cleanup.use(await startWeir({}, { bundle, databaseUrl: url, isolates: ['one'] }));
  const rule = { scope: 'ip', algorithm: 'fixed-window', limit: LIMIT, windowSeconds: 86_400, central: true };
  for (const [resource, changes] of Object.entries({
    '/plain': {},
    // A seat that nobody gives back stays taken for longer than this test runs.
    '/seat': { algorithm: 'concurrency', limit: 1, windowSeconds: 3_600 },
    // A hundred a second: each waits for 10 ms.
    '/turn': { algorithm: 'leaky-bucket', action: 'throttle', limit: 8_640_000 },
    '/metered': { costFromOrigin: true },
    '/full': { limit: 1 },
    '/shadow': { limit: 1, action: 'log' },
  }))
    await weir.admin('/rules', {
      method: 'POST',
      body: { ...rule, ...changes, name: resource.slice(1), resource },
    });
  await weir.admin('/lists', { method: 'POST', body: { list: 'deny', kind: 'ip', value: DENIED_IP } });
  ({ key: apiKey } = await weir.admin<{ key: string }>('/keys', {
    method: 'POST',
    body: { name: 'k', userId: 'u' },
  }));
});
afterAll(() => cleanup.disposeAsync());

interface Situation {
  readonly path: string;
  readonly call?: (ip: string) => Call;
  /** Requests of the same caller before the one that meets the fault. */
  readonly before?: number;
  readonly isDenied?: boolean;
}

const SITUATIONS: Readonly<Record<string, Situation>> = {
  'a plain request': { path: '/plain?bytes=5000' },
  'a request with a body': { path: '/plain', call: () => ({ method: 'POST', body: BODY }) },
  'a request without a rule': { path: '/free?bytes=5000' },
  'a request that holds a seat': { path: '/seat?bytes=5000' },
  'a request that waits for its turn': { path: '/turn?bytes=5000', before: 1 },
  'a request whose cost the origin names': { path: '/metered?bytes=5000&cost=3' },
  'a request with an API key': {
    path: '/plain?bytes=5000',
    call: () => ({ headers: { 'X-API-Key': apiKey } }),
  },
  'a request of another Weir': {
    path: '/plain?bytes=5000',
    call: () => ({ headers: { 'X-Weir-Hop': '0123456789abcdef' } }),
  },
  'a request that a shadow rule would deny': { path: '/shadow?bytes=5000', before: 1 },
  'the first request of an isolate': {
    path: '/free?bytes=5000',
    call: () => ({ headers: { 'X-Test-Cold': '1' } }),
  },
  'a request to an app that has Weir as its middleware': {
    path: '/plain',
    call: () => ({ headers: { 'X-Test-App': '1' } }),
  },
  'the first request to such an app': {
    path: '/plain',
    call: () => ({ headers: { 'X-Test-App': '1', 'X-Test-Cold': '1' } }),
  },
  'a request over its limit': { path: '/full?bytes=5000', before: 1, isDenied: true },
  'a request of an address on the deny list': {
    path: '/plain?bytes=5000',
    call: () => ({ ip: DENIED_IP }),
    isDenied: true,
  },
};

interface Told {
  readonly calls: readonly Called[];
  readonly lines: readonly string[];
  /** How often the fault has struck. */
  readonly failures: number;
}

const told = async (): Promise<Told> => (await weir.call('/told')).json() as Promise<Told>;

async function send({ path, call }: Situation, ip: string, fault?: Fault) {
  const asked = call?.(ip) ?? {};
  const headers = { ...asked.headers, ...(fault && { 'X-Test-Fault': JSON.stringify(fault) }) };
  const answer = await weir.call(path, { ip, ...asked, headers });
  return { status: answer.status, body: await bodyOf(answer), headers: answer.headers };
}

/** The echo has the headers of the request, and these differ. */
async function bodyOf(answer: Response): Promise<string> {
  const text = await answer.text();
  if (!answer.headers.get('Content-Type')?.startsWith('application/json')) return text;
  const { headers: _, ...echo } = JSON.parse(text) as Record<string, unknown>;
  return JSON.stringify(echo);
}

const bugs = ({ lines }: Told) => lines.filter((line) => line.includes('"event":"internal-error"'));

/** Passing the request on is what these do, and what that needs to know. If they fail, nobody else can do it. */
const PASSES_ON =
  /^services\.origins\.forward$|^proxy\/origins\.ts (proxy|parseOrigin|create\w+)$|^wiring\/isolate\.ts (createOrigins|joinedHeadersOf|weirIdOf)$|^wiring\/deployment\.ts parseKeyPlaces$/;
/** The sum of all that is tested here, and the guard itself. */
const WHOLE =
  / (handleGateway|passUncounted|passAndFollowUp|clock|forward|readAnswer|passPlainly|attempt|attemptLater|reportBug|runAfterResponse)$/;
/** All parts have this clock, and it is `Date.now`. Here `services.now` fails in its place. */
const CLOCK = /^wiring\/deployment\.ts now$/;
/** Nobody can log that the log fails. */
const LOGS = /^services\.log\.|\bcreateLog$/;
/** The runtime does nothing after the response, not even give a seat back. The seat expires. */
const isDropped = ({ name }: Fault) => name === 'context.waitUntil';
/** It has begun to stream the body to the client. */
const isStreaming = ({ name, mode }: Fault) => name.endsWith('holdWhileOpen') && mode === 'fails late';

const deciding = (calls: readonly Called[]) =>
  calls.findLastIndex(({ name }) => name === 'services.limiter.decide');

/** Each function that this request called, with each way in which it can fail. */
function faultsOf(calls: readonly Called[]): readonly Fault[] {
  const byName = new Map(calls.map((called) => [called.name, called]));
  const tested = [...byName.values()].filter(({ name }) => !WHOLE.test(name) && !CLOCK.test(name));
  return tested.flatMap(({ name, isAsync }): Fault[] => [
    { name, mode: 'throws' },
    { name, mode: 'fails late' },
    ...(isAsync ? [{ name, mode: 'rejects' } as const] : []),
    ...(name === 'services.origins.forward' ? [{ name, mode: 'immutable' } as const] : []),
  ]);
}

describe.each(Object.entries(SITUATIONS))('%s', (_, situation) => {
  const { before = 0, isDenied = false } = situation;
  let clean: Awaited<ReturnType<typeof send>>;
  let calls: readonly Called[];
  beforeAll(async () => {
    const ip = freshIp();
    for (let i = 0; i < before; i += 1) await send(situation, ip);
    // The isolate knows the caller, and its rules, from now on.
    if (!isDenied && before === 0) await send(situation, freshIp());
    clean = await send(situation, ip);
    ({ calls } = await told());
  });

  it('is answered as it should be, without a fault', () => {
    expect(clean.status).toBe(isDenied ? (situation.path.startsWith('/full') ? 429 : 403) : 200);
    expect(faultsOf(calls).length).toBeGreaterThan(40);
  });

  it('is answered all the same, whatever fails', async () => {
    const wrong: string[] = [];
    for (const fault of faultsOf(calls)) {
      const seen = await play(situation, fault);
      const problems = problemsOf(seen, fault);
      if (problems.length > 0) wrong.push(`${fault.name} ${fault.mode}: ${problems.join(', ')}`);
    }
    expect(wrong).toEqual([]);
  });

  /** The answer to a request that meets the fault, what was logged, and how the next requests of the caller fare. */
  const play = async (situation: Situation, fault: Fault) => {
    const ip = freshIp();
    for (let i = 0; i < before; i += 1) await send(situation, ip);
    const answer = await send(situation, ip, fault);
    const seen = await told();
    let later = 0;
    const nextStatus = async () => {
      later += 1;
      const next = await send(situation, ip);
      remaining = next.headers.get('X-RateLimit-Remaining');
      return next.status;
    };
    let remaining: string | null = null;
    // A seat is given back after the response.
    if (!isDenied && !isDropped(fault))
      await expect.poll(nextStatus, { message: `after ${fault.name} ${fault.mode}` }).toBe(200);
    const charged = remaining === null ? undefined : LIMIT - Number(remaining);
    return { answer, seen, charged, sent: before + 1 + later };
  };

  const problemsOf = (played: Awaited<ReturnType<typeof play>>, fault: Fault): readonly string[] => [
    ...problemsOfAnswer(played, fault),
    ...problemsOfLog(played, fault),
    ...problemsOfCharges(played),
  ];

  function* problemsOfAnswer({ answer: { status, body } }: Awaited<ReturnType<typeof play>>, fault: Fault) {
    const { name, mode } = fault;
    if (isStreaming(fault)) return;
    const isPassing = PASSES_ON.test(name) && mode !== 'immutable';
    const isDecided = calls.findLastIndex((called) => called.name === name) > deciding(calls);
    if (isDenied && isDecided && status !== clean.status && status !== 429) yield `${status}, not denied`;
    if (isDenied && ![clean.status, 429, 200].includes(status)) yield `${status}`;
    const isAnswered = status === clean.status && body === clean.body;
    if (!isDenied && !isAnswered && !(isPassing && (status === 502 || status === 500)))
      yield `${status} ${body.slice(0, 80)}`;
  }

  function* problemsOfLog({ seen }: Awaited<ReturnType<typeof play>>, fault: Fault) {
    const logged = bugs(seen).length;
    const expected = seen.failures === 0 || LOGS.test(fault.name) ? 0 : 1;
    if (seen.lines.some((line) => line.includes(SECRET))) yield 'the log has a secret';
    if (logged !== expected && !(LOGS.test(fault.name) && logged === 1)) yield `logged ${logged} times`;
  }

  function* problemsOfCharges({ charged, sent }: Awaited<ReturnType<typeof play>>) {
    const isCounted = situation.path.startsWith('/plain');
    if (isCounted && charged !== undefined && charged > sent) yield `charged ${charged} for ${sent} requests`;
  }
});

describe('a request to Weir itself', () => {
  it.each([
    ['/_weir/health', {}],
    ['/_weir/quota', {}],
    ['/_weir/metrics', { headers: { Authorization: 'Bearer an-admin-token-for-tests' } }],
    [
      '/_weir/check',
      {
        method: 'POST',
        headers: { Authorization: 'Bearer an-admin-token-for-tests' },
        body: { rule: 'plain', subject: '10.0.0.1' },
      },
    ],
  ] as const)('%s gets a clear answer, whatever fails', async (path, call) => {
    const situation = { path, call: () => call };
    await send(situation, freshIp());
    const clean = await send(situation, freshIp());
    expect(clean.status, clean.body).toBe(200);
    const { calls } = await told();
    const wrong: string[] = [];
    for (const fault of faultsOf(calls)) {
      const { status, body } = await send(situation, freshIp(), fault);
      const { lines } = await told();
      const isClear = status === clean.status || (status >= 500 && body.includes('"code":"'));
      if (!isClear) wrong.push(`${fault.name} ${fault.mode}: ${status} ${body.slice(0, 80)}`);
      if (lines.some((line) => line.includes(SECRET))) wrong.push(`${fault.name}: the log has a secret`);
      if ((await send(situation, freshIp())).status !== clean.status)
        wrong.push(`${fault.name} ${fault.mode}: the next request fails too`);
    }
    expect(faultsOf(calls).length).toBeGreaterThan(2);
    expect(wrong).toEqual([]);
  });
});

describe('the platform passes a request on', () => {
  const zone: Situation = { path: '/free', call: () => ({ headers: { 'X-Test-Zone': '1' } }) };
  const posted: Situation = {
    path: '/free',
    call: () => ({ ...zone.call?.(''), method: 'POST', body: 'x' }),
  };
  const isPassed = async (situation: Situation, fault: Fault, ip = freshIp()) => {
    const { status, body } = await send(situation, ip, fault);
    return { isPassed: (await told()).lines.includes('pass through'), isThrown: body === 'thrown', status };
  };
  const unsent: Fault = { name: 'services.origins.forward', mode: 'rejects' };

  it('if Weir cannot, and the origin is that of the zone', async () => {
    const passed = { isPassed: true, isThrown: true, status: 500 };
    expect(await isPassed(zone, unsent)).toEqual(passed);
    expect(await isPassed(posted, unsent)).toEqual(passed);
    expect(await isPassed(zone, { name: 'wiring/isolate.ts createOrigins', mode: 'throws' })).toEqual(passed);
  });

  it('never to another origin, never twice, and never if the request is denied', async () => {
    const answered = { isPassed: false, isThrown: false };
    expect(await isPassed({ path: '/free' }, unsent)).toEqual({ ...answered, status: 502 });
    const late: Fault = { ...unsent, mode: 'fails late' };
    expect(await isPassed(posted, late)).toEqual({ ...answered, status: 502 });
    const own = { ...zone, path: '/_weir/admin' };
    const cold: Fault = { name: 'wiring/isolate.ts createOrigins', mode: 'throws' };
    expect(await isPassed(own, cold)).toEqual({ isPassed: false, isThrown: true, status: 500 });
    const refused: Fault = { name: 'gateway/gateway.ts refusal', mode: 'throws' };
    expect(await isPassed({ ...zone, path: '/plain' }, refused, DENIED_IP)).toEqual({
      ...answered,
      status: 429,
    });
  });
});
