// weir/fetch outside of Cloudflare: node:http in front of an app, and requests that another server hands over.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { startRegions } from '../../local/regions.ts';
import type { WrittenRule } from '../../src/authoring/written-rule.ts';
import type { CheckAnswer, CheckCall } from '../../src/checks/call.ts';
import type { AppCaller } from '../../src/core/matching/caller.ts';

// The types of the entry name those of Workers, which are not known here. test/package compiles it with those of Node.
const ENTRY: string = '../../src/fetch.ts';
const { createWeir }: { createWeir: CreateWeir } = await import(ENTRY);

type CreateWeir = (options: object) => {
  fetch(request: Request, env: object, context: object, handler: Handler): Promise<Response>;
  node<R>(options: NodeOptions<R>): (request: R, response: ServerResponse, next: Next) => Promise<void>;
  of(request: object): Weir;
  checks(env: object): Pick<Weir, 'check'>;
  idle(): Promise<void>;
};
type Next = () => unknown;
type Handler = (weir: Weir) => Response | Promise<Response>;
interface Weir {
  readonly caller: AppCaller | undefined;
  check(call: CheckCall): Promise<CheckAnswer>;
}
interface NodeOptions<R> {
  readonly env?: object;
  readonly address?: string | ((request: R) => string | undefined);
  readonly caller?: (request: R) => AppCaller | undefined;
}

const stack = new AsyncDisposableStack();
let env: { readonly REDIS_URL: string; readonly REDIS_TOKEN: string };
beforeAll(async () => {
  const [region] = await startRegions({ redisPort: 0, upstashPort: 0 }, stack);
  const variables = { DEADLINE_MS: '5000', PLAIN_HTTP: 'allow', ADMIN_TOKENS: TOKENS };
  env = { ...variables, REDIS_URL: region?.gateway.url ?? '', REDIS_TOKEN: region?.gateway.token ?? '' };
});
afterAll(() => stack.disposeAsync());

const TOKENS = JSON.stringify([{ name: 'jobs', token: 'a-token-that-may-check', role: 'check' }]);
const hour = { algorithm: 'fixed-window', windowSeconds: 3600 } as const;

let rules = 0;
/** Its counters are those of no other test. */
const ruleOf = (rule: WrittenRule): WrittenRule => {
  rules += 1;
  return { ...hour, name: `rule-${rules}`, limit: 2, ...rule };
};

const weirOf = (rule: WrittenRule, caller?: (request: Request) => AppCaller) =>
  createWeir({
    regions: ({ REDIS_URL, REDIS_TOKEN }: typeof env) => [{ url: REDIS_URL, token: REDIS_TOKEN }],
    rules: [ruleOf(rule)],
    ...(caller && { caller }),
  });

const hello: RequestListener = (_, response) => response.end('hello');
const header = (name: string) => (answer: Response) => answer.headers.get(name);
const remaining = header('X-RateLimit-Remaining');

/** node:http in front of an app that answers in its own way. */
async function serve(
  rule: WrittenRule,
  app: RequestListener = hello,
  options: NodeOptions<IncomingMessage> = {},
) {
  const cleanup = new AsyncDisposableStack();
  const weir = weirOf(rule);
  const limit = weir.node<IncomingMessage>({ env, ...options });
  const failed: unknown[] = [];
  const server = createServer((request, response) => {
    limit(request, response, () => app(request, response)).catch((error) => {
      failed.push(error);
      response.destroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanup.defer(async () => {
    server.closeAllConnections();
    server.close();
    await weir.idle();
  });
  const { port } = server.address() as AddressInfo;
  return {
    ...{ weir, failed, port },
    ask: (path: string, init?: RequestInit) => fetch(`http://127.0.0.1:${port}${path}`, init),
    [Symbol.asyncDispose]: () => cleanup.disposeAsync(),
  };
}

/** Sends a request as no client library would. */
async function askRaw(port: number, target: string, method = 'GET'): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.write(`${method} ${target} HTTP/1.1\r\nHost: mine.test\r\nConnection: close\r\n\r\n`);
  let text = '';
  for await (const chunk of socket) text += chunk;
  return text;
}

describe('in front of node:http', () => {
  it('admits the limit, refuses the rest, and sends the headers of the decision', async () => {
    await using at = await serve({ resource: '/hello', policy: 'hello' });
    const answers = [await at.ask('/hello'), await at.ask('/hello'), await at.ask('/hello')];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(answers.map(remaining)).toEqual(['1', '0', '0']);
    expect(answers.map(header('RateLimit-Policy'))).toEqual(Array(3).fill('"hello";q=2;w=3600'));
    expect(await answers[0]?.text()).toBe('hello');
    expect(await answers[2]?.json()).toMatchObject({ code: 'rate-limited', policy: 'hello' });
    expect((await at.ask('/other')).status).toBe(200);
  });

  it('counts the address of the socket, whatever a client says', async () => {
    await using at = await serve({ resource: '/hello' });
    const from = (ip: string) => ({ headers: { 'CF-Connecting-IP': ip, 'X-Forwarded-For': ip } });
    const answers = [await at.ask('/hello', from('10.0.0.1')), await at.ask('/hello', from('10.0.0.2'))];
    expect(answers.map(remaining)).toEqual(['1', '0']);
  });

  it('counts the last address in the header of a proxy, because a client can write the others', async () => {
    await using at = await serve({ resource: '/hello' }, hello, { address: 'X-Forwarded-For' });
    const via = async (list: string) =>
      remaining(await at.ask('/hello', { headers: { 'X-Forwarded-For': list } }));
    expect(await via('192.0.2.9, 192.0.2.1')).toBe('1');
    expect(await via('192.0.2.8, 192.0.2.1')).toBe('0');
    expect(await via('192.0.2.1, 192.0.2.9')).toBe('1');
    expect(remaining(await at.ask('/hello'))).toBe('1');
  });

  it('counts the address that a function names', async () => {
    await using at = await serve({ resource: '/hello' }, hello, {
      address: ({ headers }) => headers['x-mine']?.toString(),
    });
    for (const [ip, left] of [
      ['192.0.2.1', '1'],
      ['192.0.2.2', '1'],
      ['192.0.2.1', '0'],
    ] as const)
      expect(remaining(await at.ask('/hello', { headers: { 'X-Mine': ip } }))).toBe(left);
  });

  it('counts each spelling that the app may read as the path, and refuses one that can be read in two ways', async () => {
    await using at = await serve({ resource: '/hello', limit: 9 });
    const raw = async (target: string) => {
      const answer = await askRaw(at.port, target);
      return (
        answer.slice('HTTP/1.1 '.length, 12) + (/^x-ratelimit-remaining: (\d)/im.exec(answer)?.[1] ?? '')
      );
    };
    expect(await raw('/hello')).toBe('2008');
    expect(await raw('http://other.test/hello?x')).toBe('2007');
    expect(await raw('//hello')).toBe('2006');
    expect(await raw('/%68ello')).toBe('2005');
    for (const target of ['/x/../hello', '/hello/.', '/x\\..\\hello', '/hello#x', '/hello/%2e%2e/x', '*'])
      expect([target, await raw(target)]).toEqual([target, '400']);
  });

  it('refuses a method that no Request can have, without an error', async () => {
    await using at = await serve({ resource: '/hello' });
    expect(await askRaw(at.port, '/hello', 'TRACE')).toMatch(/^HTTP\/1\.1 405 /);
    expect(at.failed).toEqual([]);
  });

  it('takes the real cost from X-Weir-Cost, which no client sees, however the app sends its head', async () => {
    const heads: ((response: ServerResponse) => void)[] = [
      (response) => response.setHeader('X-Weir-Cost', '3'),
      (response) => response.writeHead(201, { 'x-weir-cost': 3, 'set-cookie': ['a=1', 'b=2'] }),
      (response) => response.writeHead(201, 'Made', ['X-Weir-Cost', '3', 'X-Own', 'kept']),
    ];
    await using at = await serve(
      { resource: '/hello', limit: 20, costFromOrigin: true },
      (request, response) => {
        response.setHeader('X-Own', 'kept');
        heads[Number(request.headers['x-head'])]?.(response);
        response.end('hello');
      },
    );
    for (const [head, left] of ['19', '16', '13'].entries()) {
      const answer = await at.ask('/hello', { headers: { 'X-Head': String(head) } });
      expect([head, remaining(answer), answer.headers.get('X-Weir-Cost')]).toEqual([head, left, null]);
      expect(answer.headers.get('X-Own')).toBe('kept');
      expect(await answer.text()).toBe('hello');
      if (head === 1) expect(answer.headers.getSetCookie()).toEqual(['a=1', 'b=2']);
      if (head === 2) expect(answer.statusText).toBe('Made');
      await at.weir.idle();
    }
  });

  it('holds a seat until the response ends, and gives it back after an error', async () => {
    const open: ServerResponse[] = [];
    const rule = { resource: '/one', algorithm: 'concurrency', limit: 1 } as const;
    await using at = await serve(rule, ({ method }, response) => {
      if (method === 'POST') throw new Error('broken');
      if (method === 'PUT') response.writeHead(204).end();
      else {
        response.write('begun');
        open.push(response);
      }
    });
    const first = await at.ask('/one');
    expect([first.status, (await at.ask('/one')).status]).toEqual([200, 429]);
    open[0]?.end();
    expect(await first.text()).toBe('begun');
    await at.weir.idle();
    await expect(at.ask('/one', { method: 'POST' })).rejects.toThrow('fetch failed');
    expect(at.failed).toEqual([new Error('broken')]);
    await at.weir.idle();
    expect((await at.ask('/one', { method: 'PUT' })).status).toBe(204);
    await at.weir.idle();
    const left = new AbortController();
    const last = await at.ask('/one', { signal: left.signal });
    expect(last.status).toBe(200);
    left.abort();
    await at.weir.idle();
    expect((await at.ask('/one', { method: 'PUT' })).status).toBe(204);
  });

  it('leaves the body and the response to the app', async () => {
    await using at = await serve({ resource: '/hello' }, async (request, response) => {
      response.writeHead(200);
      for await (const chunk of request) response.write(String(chunk).toUpperCase());
      response.end();
    });
    expect(await (await at.ask('/hello', { method: 'POST', body: 'hello' })).text()).toBe('HELLO');
  });

  it('hands the error of an asynchronous app to its caller, also after the head', async () => {
    await using at = await serve({ resource: '/hello' }, async (_, response) => {
      response.writeHead(200).write('x');
      throw new Error('too late');
    });
    await expect(at.ask('/hello').then((answer) => answer.text())).rejects.toThrow();
    expect(at.failed).toEqual([new Error('too late')]);
  });

  it('knows the caller from what middleware has left on the request, and checks for it in code', async () => {
    type Known = IncomingMessage & { user?: string };
    const weir = weirOf({ resource: '/hello', policy: 'hello', scope: 'user', limit: 10 });
    const limit = weir.node<Known>({
      env,
      caller: ({ user }) => (user === undefined ? undefined : { userId: user }),
    });
    const server = createServer(async (request: Known, response) => {
      request.user = 'ann';
      await limit(request, response, async () => {
        const { caller, check } = weir.of(request);
        response.end(JSON.stringify([caller?.userId, (await check({ policy: 'hello', cost: 4 })).results]));
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    stack.defer(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const answer = await fetch(`http://127.0.0.1:${port}/hello`);
    expect(await answer.json()).toMatchObject(['ann', [{ subject: 'ann', remaining: 5 }]]);
    const outside = await weir.checks(env).check({ policy: 'hello', subject: 'ann', peek: true });
    expect(outside.results).toMatchObject([{ remaining: 5 }]);
    expect(() => weir.of({})).toThrow('Weir has not admitted this request');
  });

  it('answers under /_weir, and reads the bodies of these requests', async () => {
    await using at = await serve({ resource: '/hello', policy: 'hello', limit: 10 });
    const quota = await at.ask('/_weir/quota');
    expect(await quota.json()).toMatchObject({ limits: [{ policy: 'hello', limit: 10, remaining: 10 }] });
    const checked = await at.ask('/_weir/check', {
      method: 'POST',
      headers: { Authorization: 'Bearer a-token-that-may-check' },
      body: JSON.stringify({ policy: 'hello', subject: '192.0.2.1', cost: 4 }),
    });
    expect(await checked.json()).toMatchObject({ allowed: true, results: [{ remaining: 6 }] });
  });

  it('lets nothing pass, and says why, while the configuration is wrong', async () => {
    const said = vi.spyOn(console, 'error').mockImplementation(() => {});
    try {
      await using at = await serve({ resource: '/hello', limit: 0 });
      const answer = await at.ask('/hello');
      expect(answer.status).toBe(500);
      expect(await answer.json()).toMatchObject({
        code: 'bad-config',
        errors: [{ pointer: 'rules/0/limit' }],
      });
      expect(said.mock.calls).toEqual([[expect.stringContaining('rules/0/limit')]]);
    } finally {
      said.mockRestore();
    }
  });
});

describe('with requests of another server', () => {
  const url = 'https://mine.test/hello';

  it('limits by the address that the server names, and leaves the request to the handler', async () => {
    const weir = weirOf({ resource: '/hello' });
    const ask = async (address: string | undefined) => {
      const request = new Request(url, {
        method: 'POST',
        body: 'mine',
        headers: { 'CF-Connecting-IP': '10.9.9.9' },
      });
      return weir.fetch(request, env, { address }, async () => new Response(await request.text()));
    };
    const answers = [
      await ask('192.0.2.1'),
      await ask('192.0.2.2'),
      await ask('192.0.2.1'),
      await ask('192.0.2.1'),
    ];
    expect(answers.map(remaining)).toEqual(['1', '1', '0', '0']);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
    expect(await answers[0]?.text()).toBe('mine');
    expect(remaining(await ask(undefined))).toBe('1');
    await weir.idle();
  });

  it('believes no CF-Connecting-IP, and says that the address is missing', async () => {
    const said = vi.spyOn(console, 'error').mockImplementation(() => {});
    try {
      const request = new Request(url, { headers: { 'CF-Connecting-IP': '192.0.2.1' } });
      const answer = await weirOf({ resource: '/hello' }).fetch(
        request,
        env,
        {},
        () => new Response('hello'),
      );
      expect(answer.status).toBe(500);
      expect(await answer.json()).toMatchObject({ code: 'bad-config', errors: [{ pointer: 'address' }] });
    } finally {
      said.mockRestore();
    }
  });

  it('asks the app who calls, and gives errors of the handler back to it', async () => {
    const weir = weirOf({ resource: '/hello', scope: 'user' }, ({ headers }) => ({
      userId: headers.get('X-User'),
    }));
    const ask = (address: string) =>
      weir.fetch(new Request(url, { headers: { 'X-User': 'ann' } }), env, { address }, ({ caller }) => {
        if (address === '192.0.2.2') throw new RangeError('of the app');
        return new Response(String(caller?.userId));
      });
    expect(await (await ask('192.0.2.1')).text()).toBe('ann');
    await expect(ask('192.0.2.2')).rejects.toThrow(RangeError);
    expect((await ask('192.0.2.3')).status).toBe(429);
    await weir.idle();
  });
});
