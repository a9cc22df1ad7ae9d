// The entry of the Worker that fails on command: a header of the request says which function fails, and how.
import { Hono } from 'hono';
import { weir } from '../../../src/hono.ts';
import worker, { type Bindings } from '../../../src/worker.ts';
import { begin, type Fault, failing, note, told } from './runtime.ts';

console.warn = note;
console.error = note;

type Context = Parameters<typeof worker.fetch>[2];

/** An app that has Weir as its middleware. */
const app = new Hono().use(weir() as never);
app.all('*', (c) => c.text('the app '.repeat(500)));

export default {
  async fetch(request: Request, env: Bindings, context: Context): Promise<Response> {
    if (new URL(request.url).pathname === '/told') return Response.json(told());
    const fault = request.headers.get('X-Test-Fault');
    // Other bindings mean another isolate, as far as Weir can tell.
    const isCold = request.headers.has('X-Test-Cold');
    begin(fault === null ? undefined : (JSON.parse(fault) as Fault));
    const isZone = request.headers.has('X-Test-Zone');
    const bindings = isCold || isZone ? { ...env, ...(isZone && { ORIGIN_URL: 'pass' }) } : env;
    const failingContext = {
      waitUntil: failing('context.waitUntil', (work: Promise<unknown>) => context.waitUntil(work)),
      passThroughOnException: () => note('pass through'),
      props: {},
    };
    // Awaited here, so that the platform does not answer what throws.
    try {
      return request.headers.has('X-Test-App')
        ? await app.fetch(request, bindings, failingContext)
        : await worker.fetch(request, bindings, failingContext);
    } catch {
      return new Response('thrown', { status: 500 });
    }
  },
};
