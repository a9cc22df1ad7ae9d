// What the gateway does about charges after an answer is handed to the runtime, which waits for it. The store is late:
// what nobody waits for would not be done when it is looked at.
import { expect, it } from 'vitest';
import type { CounterStore } from '../../src/core/counter-store.ts';
import type { CompiledRule } from '../../src/core/snapshot.ts';
import { handleGateway } from '../../src/http/gateway.ts';
import type { ProxyResult } from '../../src/http/proxy.ts';
import type { Services } from '../../src/http/services.ts';
import { createDecision, createResult, NO_STORE } from '../http/headers-harness.ts';
import { createRegion } from '../limiter/limiter-harness.ts';

const LATE_MS = 20;

function createLateStore() {
  const done: string[] = [];
  const store: CounterStore = {
    ...NO_STORE,
    async run({ operation, checks }) {
      await new Promise((resolve) => setTimeout(resolve, LATE_MS));
      done.push(...checks.map(({ cost }) => `${operation} ${cost}`));
      return { nowMs: 0, outcomes: [] };
    },
  };
  return { done, store };
}

interface Situation {
  readonly rule: Partial<CompiledRule>;
  readonly delayMs?: number;
  readonly hasLeft?: boolean;
  readonly answer?: ProxyResult;
}

const answered = (headers: Record<string, string> = {}): ProxyResult => ({
  kind: 'answered',
  response: new Response('from the origin', { headers }),
});
const unreachable: ProxyResult = {
  kind: 'failed',
  reason: 'unreachable',
  response: new Response(null, { status: 502 }),
};

/** What the store was asked once all that was handed over is done, and nothing else is waited for. */
async function send({ rule, delayMs = 0, hasLeft = false, answer = answered() }: Situation) {
  const { done, store } = createLateStore();
  const later: Promise<unknown>[] = [];
  const decision = createDecision([{ ...createResult(rule, { delayMs }), store }]);
  const services = {
    limiter: { decide: async () => decision },
    origin: { url: '', timeoutMs: 1, rateLimitHeaders: 'keep', costHeader: 'X-Weir-Cost' },
    isDevelopment: false,
    showsDegraded: false,
    log: {
      degraded: () => {},
      shadow: () => {},
      breaker: () => {},
      script: () => {},
      bug: () => {},
      error: (_, error) => void done.push(String(error)),
    },
  } satisfies Partial<Services>;
  const response = await handleGateway(services as unknown as Services, {
    request: new Request('https://weir.test/', hasLeft ? { signal: AbortSignal.abort() } : {}),
    regions: [createRegion('us', {})],
    matchPath: '/',
    afterResponse: (work) => void later.push(work),
    forward: async () => answer,
  });
  await response.text();
  await Promise.all(later);
  return done;
}

it.each<[string, Situation, string]>([
  [
    'the real cost is charged',
    { rule: { costFromOrigin: true }, answer: answered({ 'X-Weir-Cost': '5' }) },
    'settle 4',
  ],
  [
    'what was charged beyond the real cost is given back',
    { rule: { costFromOrigin: true, cost: 9 }, answer: answered({ 'X-Weir-Cost': '5' }) },
    'refund 4',
  ],
  [
    'a charge is given back if the origin could not be reached',
    { rule: { refundOnError: true }, answer: unreachable },
    'refund 1',
  ],
  [
    'a charge is given back if the client left before its turn',
    { rule: { action: 'throttle' }, delayMs: 1_000, hasLeft: true },
    'refund 1',
  ],
  ['a lease is released when the answer is over', { rule: { algorithm: 'concurrency' } }, 'refund 1'],
  [
    'a lease is released if the origin could not be reached',
    { rule: { algorithm: 'concurrency' }, answer: unreachable },
    'refund 1',
  ],
])('%s', async (_, situation, asked) => {
  expect(await send(situation)).toEqual([asked]);
});
