// The origin is down, slow or failing: the answer says so, and the request is still counted correctly.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Origin, startOrigin } from '../../local/origin.ts';
import { freshIp, REGIONS } from '../../local/weir.ts';
import type { Ask } from './client.ts';
import { addRule, type FaultStack, LIMIT, PART, recover, ruleFor, startFaultStack } from './harness.ts';

const ORIGIN_TIMEOUT_MS = 1_000;

let stack: FaultStack;
let origin: Origin;
beforeAll(async () => {
  origin = await startOrigin();
  stack = await startFaultStack({
    ORIGIN_URL: origin.url,
    ORIGIN_TIMEOUT_MS: String(ORIGIN_TIMEOUT_MS),
  });
  const { weir, client } = stack;
  await addRule(weir, ruleFor('/roomy', 1_000_000));
  await addRule(weir, ruleFor('/counted'));
  await addRule(weir, { ...ruleFor('/refunded'), refundOnError: true });
  await addRule(weir, { ...ruleFor('/held', 1), algorithm: 'concurrency', windowSeconds: 60 });
  await recover({ client, isolates: ['one', 'two'] });
});
afterAll(async () => {
  await stack?.[Symbol.asyncDispose]();
  await origin?.stop();
});

async function refusing(during: () => Promise<void>): Promise<void> {
  await origin.stop();
  await during().finally(async () => {
    origin = await startOrigin({ port: origin.port });
  });
}
const asUsual = (during: () => Promise<void>) => during();

const FAILURES = [
  // The runtime does not tell these two apart, and the second one may have worked for long.
  { name: 'refuses connections', query: '', status: 502, within: refusing, isReached: true },
  { name: 'resets connections', query: '?fail=reset', status: 502, within: asUsual, isReached: true },
  { name: 'hangs', query: '?hang=1', status: 504, within: asUsual, isReached: true },
  { name: 'answers 500', query: '?status=500', status: 500, within: asUsual, isReached: true },
  // Cloudflare's answer for an origin that refuses connections.
  { name: 'is answered for with 521', query: '?status=521', status: 521, within: asUsual, isReached: false },
];

const PLACES = [
  { place: 'with all regions', gone: [], fallback: undefined, limit: PART },
  { place: 'without the nearest region', gone: ['us'], fallback: 'next-region', limit: PART },
  { place: 'without any region', gone: REGIONS, fallback: 'open', limit: LIMIT },
];

async function without(regions: readonly string[], during: () => Promise<void>): Promise<void> {
  const each = regions.reduce(
    (inner, region) => () => stack.weir.withFault(region, { status: 500 }, inner),
    during,
  );
  await each();
}

const ask = (path: string, ip: string) => stack.client.ask({ path, ip });

async function recoverFrom(gone: readonly string[]): Promise<void> {
  if (gone.length > 0) await recover({ client: stack.client, isolates: ['one'], regions: gone });
}

/** How many more requests of a subject pass in one isolate. Finds out by sending them. */
async function left(ask: Ask): Promise<number> {
  for (let passed = 0; passed <= LIMIT; passed += 1)
    if ((await stack.client.ask(ask)).status === 429) return passed;
  throw new Error('more pass than the limit allows');
}

describe.sequential.each(PLACES)('$place', ({ gone, fallback, limit }) => {
  it.each(FAILURES)(
    'a request to an origin that $name is answered with $status, and counted',
    async (failure) => {
      const { query, status, within } = failure;
      const ip = freshIp();
      await without(gone, async () => {
        await within(async () => {
          const answers = await Promise.all([ask(`/counted${query}`, ip), ask(`/counted${query}`, ip)]);
          for (const answer of answers) expect([answer.status, answer.fallback]).toEqual([status, fallback]);
        });
        expect(await left({ path: '/counted', ip })).toBe(limit - 2);
      });
      await recoverFrom(gone);
    },
  );

  it.each(FAILURES)(
    'a rule that refunds errors gives back only requests that did not reach an origin that $name',
    async (failure) => {
      const { query, status, within, isReached } = failure;
      const ip = freshIp();
      await without(gone, async () => {
        await within(async () => {
          const answers = await Promise.all([ask(`/refunded${query}`, ip), ask(`/refunded${query}`, ip)]);
          expect(answers.map((answer) => answer.status)).toEqual([status, status]);
        });
        await expectRefunded(ip, isReached ? limit - 2 : limit);
      });
      await recoverFrom(gone);
    },
  );

  it.each(FAILURES)(
    'a seat is free again after a request to an origin that $name',
    async ({ query, status, within }) => {
      const ip = freshIp();
      await without(gone, async () => {
        await within(async () => {
          expect((await stack.client.ask({ path: `/held${query}`, ip })).status).toBe(status);
        });
        const held = async () => (await stack.client.ask({ path: '/held', ip })).status;
        await expect.poll(held).toBe(200);
      });
      await recoverFrom(gone);
    },
  );
});

/** Weir gives the charge back after the response. Each poll spends units, so the sum of all polls counts. */
async function expectRefunded(ip: string, expected: number): Promise<void> {
  let spent = 0;
  const passes = async () => {
    spent += await left({ path: '/refunded', ip });
    return spent;
  };
  await expect.poll(passes).toBe(expected);
}
