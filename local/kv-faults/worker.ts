// Stands between the isolates and Miniflare's KV. workerd's KV binding speaks HTTP to the service behind it: GET reads,
// PUT and DELETE write, 404 is null, and any other failure makes the call throw.
import type { KvFaults } from './faults.ts';

const HANG_MS = 600_000;
const GARBAGE = '<html>not what you asked for</html>';

interface Bindings {
  readonly STORE: { fetch(request: Request): Promise<Response> };
}

let faults: KvFaults = {};

export default {
  async fetch(request: Request, { STORE }: Bindings): Promise<Response> {
    const isWrite = request.method === 'PUT' || request.method === 'DELETE';
    const failure = await fail(isWrite ? faults.write : faults.read);
    if (failure === undefined) return STORE.fetch(request);
    // The binding's put waits until its value was read, so read it before any answer.
    await request.arrayBuffer();
    return failure;
  },
};

/** Takes the orders of the tests. It has its own address, so that no key of KV looks like an order. */
export const control = {
  async fetch(request: Request): Promise<Response> {
    faults = (await request.json()) as KvFaults;
    return new Response(null);
  },
};

async function fail(how: KvFaults['read'] | KvFaults['write']): Promise<Response | undefined> {
  // The runtime would notice a promise that nothing can resolve, and fail at once.
  if (how === 'hang') await new Promise((resolve) => setTimeout(resolve, HANG_MS));
  if (how === 'null') return new Response('fault: not found', { status: 404 });
  if (how === 'garbage') return new Response(GARBAGE);
  return how === undefined ? undefined : new Response('fault', { status: 500 });
}
