// Checks through a service binding: another Worker calls `env.WEIR.check(…)`, without a token.
import { join } from 'node:path';
import { convertV4MiniflareOptions, Miniflare } from 'miniflare';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { modulesIn } from '../../local/bundle.ts';
import { readCompatibility } from '../../local/isolates.ts';
import type { Weir } from '../../local/weir.ts';
import { createSharedParts } from '../shared/parts.ts';
import { startWeir } from '../shared/weir.ts';

/** Calls the method that its path names, and answers with the result. */
const CALLER = `export default {
  async fetch(request, env) {
    try {
      const result = await env.WEIR[new URL(request.url).pathname.slice(1)](...(await request.json()));
      return Response.json({ result: result ?? null });
    } catch (error) {
      return Response.json({ threw: error.message });
    }
  },
};`;

let weir: Weir;
let workers: Miniflare;
beforeAll(async () => {
  weir = await startWeir({}, { isolates: ['one'] });
  const rule = { name: 'jobs', resource: '/jobs', scope: 'user', algorithm: 'fixed-window', central: true };
  await weir.admin('/rules', { method: 'POST', body: { ...rule, limit: 5, windowSeconds: 86_400 } });
  workers = await startWorkers(weir.stack.variables);
});
afterAll(async () => {
  await workers?.dispose();
  await weir?.[Symbol.asyncDispose]();
});

async function startWorkers(variables: Readonly<Record<string, string>>): Promise<Miniflare> {
  const folder = await createSharedParts(inject('sharedParts')).worker();
  const modules = (await modulesIn(folder)).map((name) => ({
    type: 'ESModule' as const,
    path: join(folder, name),
  }));
  const compatibility = await readCompatibility();
  const secrets = { ADMIN_TOKEN: 'an-admin-token-for-tests', DEADLINE_MS: '10000', TELEMETRY_SECONDS: '0.1' };
  return new Miniflare(
    convertV4MiniflareOptions({
      workers: [
        {
          name: 'caller',
          ...compatibility,
          modules: true,
          script: CALLER,
          serviceBindings: { WEIR: { name: 'weir', entrypoint: 'Weir' } },
        },
        {
          name: 'weir',
          ...compatibility,
          modules,
          rootPath: folder,
          bindings: { ...variables, ...secrets },
          kvNamespaces: ['RULES'],
        },
      ],
    }),
  );
}

interface Told {
  readonly threw?: string;
  readonly result?: { readonly allowed: boolean; readonly id: string | null } | null;
}

async function call(method: string, ...args: unknown[]): Promise<Told> {
  const answer = await workers.dispatchFetch(`http://caller.test/${method}`, {
    method: 'POST',
    body: JSON.stringify(args),
  });
  return (await answer.json()) as Told;
}

it('a Worker charges, refunds and settles through a service binding', async () => {
  const first = await call('check', { rule: 'jobs', subject: 'ann', cost: 3 });
  expect(first).toMatchObject({ result: { allowed: true, results: [{ subject: 'ann', remaining: 2 }] } });
  expect(await call('check', { rule: 'jobs', subject: 'ann', cost: 3 })).toMatchObject({
    result: { allowed: false, id: null },
  });
  expect(await call('refund', first.result?.id)).toEqual({ result: null });
  const second = await call('check', { checks: [{ rule: 'jobs', subject: 'ann', cost: 5 }] });
  expect(second).toMatchObject({ result: { allowed: true } });
  expect(await call('settle', second.result?.id, 1)).toEqual({ result: { uncharged: 0 } });
  expect(await call('check', { rule: 'jobs', subject: 'ann', peek: true })).toMatchObject({
    result: { id: null, results: [{ remaining: 4 }] },
  });
});

it('an id that was used once refunds and settles no second time, however it is spelled', async () => {
  await call('check', { rule: 'jobs', subject: 'bob', cost: 2 });
  const { result } = await call('check', { rule: 'jobs', subject: 'bob', cost: 2 });
  const id = result?.id ?? '';
  expect(await call('refund', id)).toEqual({ result: null });
  const unknown = { threw: '#/id: was not made by this Weir' };
  for (const spelled of [`${id}.1`, `${id}.2`, `${id}.`, `${id}=`]) {
    expect(await call('refund', spelled)).toEqual(unknown);
    expect(await call('settle', spelled, 0)).toEqual(unknown);
  }
  expect(await call('settle', id, 0)).toEqual({ threw: '#/id: was refunded or settled before' });
  expect(await call('check', { rule: 'jobs', subject: 'bob', peek: true })).toMatchObject({
    result: { results: [{ remaining: 3 }] },
  });
});

it.each([-1, -1_000, 1.5, null, '3', 1e300])(
  'settling at a cost of %j throws, and gives nothing back',
  async (cost) => {
    const subject = `settles at ${cost}`;
    await call('check', { rule: 'jobs', subject, cost: 2 });
    const { result } = await call('check', { rule: 'jobs', subject, cost: 2 });
    expect(await call('settle', result?.id, cost)).toEqual({
      threw: expect.stringMatching(/^#\/cost: must be /),
    });
    expect(await call('check', { rule: 'jobs', subject, peek: true })).toMatchObject({
      result: { results: [{ remaining: 1 }] },
    });
  },
);

it('a Worker can use a rule as soon as it is published', async () => {
  await call('check', { rule: 'jobs', subject: 'eve', peek: true });
  const rule = { name: 'later', resource: '/later', scope: 'user', algorithm: 'fixed-window', limit: 5 };
  await weir.admin('/rules', { method: 'POST', body: { ...rule, windowSeconds: 60 } });
  expect(await call('check', { rule: 'later', subject: 'eve' })).toMatchObject({ result: { allowed: true } });
});

it('what a Worker charges is recorded as usage, and corrected when it is settled or given back', async () => {
  const [one, two] = [
    await call('check', { rule: 'jobs', subject: 'zoe', cost: 2 }),
    await call('check', { rule: 'jobs', subject: 'zoe' }),
  ];
  await call('settle', one.result?.id, 4);
  await call('refund', two.result?.id);
  const used = async () => (await weir.admin<{ items: object[] }>('/usage?user=zoe')).items;
  await expect.poll(used).toMatchObject([{ requests: 2, cost: 4 }]);
});

it('a call that is not valid throws an error that names the problem', async () => {
  expect(await call('check', { rule: 'nothing', subject: 'ann' })).toEqual({
    threw: '#/rule: there is no such rule in force',
  });
  expect(await call('check', { subject: 'ann' })).toEqual({
    threw: '#: must have either rule or policy',
  });
  expect(await call('refund', 'nothing')).toEqual({ threw: '#/id: was not made by this Weir' });
});
