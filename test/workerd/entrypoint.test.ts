// Checks by a service binding: `env.WEIR.check(…)` of another Worker.
import { exports } from 'cloudflare:workers';
import { beforeAll, expect, it } from 'vitest';
import type { Weir } from '../../src/entrypoint.ts';
import { admin, call, sql } from './worker.ts';

const weir = (exports as { readonly Weir: Service<Weir> }).Weir;

beforeAll(async () => {
  await sql('delete from weir.rules');
  await sql(`insert into weir.rules (name, resource, scope, algorithm, "limit", window_seconds) values
    ('jobs', '/jobs', 'user', 'fixed-window', 5, 86400)`);
  expect((await call('/_weir/admin/publish', { method: 'POST', headers: admin })).status).toBe(200);
});

it('charges, and gives back by the id of the answer', async () => {
  const first = await weir.check({ rule: 'jobs', subject: 'ann', cost: 3 });
  expect(first).toMatchObject({ allowed: true, results: [{ subject: 'ann', remaining: 2 }] });
  expect((await weir.check({ rule: 'jobs', subject: 'ann', cost: 3 })).allowed).toBe(false);
  await weir.refund(first.id ?? '');
  const second = await weir.check({ checks: [{ rule: 'jobs', subject: 'ann', cost: 5 }] });
  expect(second.allowed).toBe(true);
  await weir.settle(second.id ?? '', 1);
  expect((await weir.check({ rule: 'jobs', subject: 'ann', peek: true })).results[0]?.remaining).toBe(4);
});

async function messageOf(work: () => Promise<unknown>): Promise<string> {
  try {
    await work();
    return 'nothing was wrong';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

it('throws an error that names what is wrong', async () => {
  const messages = [
    await messageOf(async () => weir.check({ rule: 'nothing', subject: 'ann' })),
    await messageOf(async () => weir.refund('nothing')),
  ];
  expect(messages).toEqual(['checks[0].rule: there is no such rule in force', 'id: is none of this Weir']);
});
