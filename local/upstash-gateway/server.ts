// A local stand-in for Upstash: its REST API over HTTP in front of one Redis, with a bill, and with faults on demand.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { LOOPBACK } from '../ports.ts';
import { countBilled, type GatewayStats } from './billing.ts';
import { connectCluster } from './cluster-link.ts';
import { answerControl } from './control.ts';
import { createFaultSwitch, type FaultSwitch, type GatewayFaults } from './fault-switch.ts';
import type { Faults } from './faults.ts';
import { MAX_BODY_BYTES, readBody, sendAnswer, sendHalf } from './http-io.ts';
import { createHttpPort } from './http-port.ts';
import { createKeyGuard } from './key-guard.ts';
import { createLockNeeds } from './lock-needs.ts';
import { createLocks, type LockOptions } from './locks.ts';
import { connectRedis, RedisDownError } from './redis-link.ts';
import { type Answer, renderError } from './replies.ts';
import { answerRest, type RestOptions } from './rest.ts';
import { createScripts, UNTOUCHED } from './scripts.ts';

export interface UpstashGatewayOptions {
  /** 0 picks a free port. */
  port: number;
  token: string;
  redisUrl: string;
  /** All nodes of a Redis Cluster, instead of `redisUrl`. */
  clusterUrls?: readonly string[] | undefined;
  name: string;
  /** Refuses keys outside KEYS in scripts with `allow-key-locking`, as Upstash does. Off only to measure bare Redis. */
  checkKeys?: boolean;
  /** The server at `redisUrl` runs scripts as Upstash does, so they go through unchanged. */
  runsUpstashLua?: boolean;
  /** Locks keys while commands run, as Upstash does. Off by default: it makes nothing more exact, only slower. */
  locks?: LockOptions;
  /** The source of chance for `rate` and for a range of `latencyMs`. */
  random?: () => number;
}

export interface UpstashGateway {
  name: string;
  url: string;
  port: number;
  token: string;
  stats(): Promise<GatewayStats>;
  faults: GatewayFaults;
  /** Does not wait for requests that hang. */
  stop(): Promise<void>;
}

export async function startUpstashGateway(options: UpstashGatewayOptions): Promise<UpstashGateway> {
  const { name, token, checkKeys = true, random = Math.random } = options;
  const label = `Upstash gateway ${name}`;
  const link = await (options.clusterUrls
    ? connectCluster(options.clusterUrls, label)
    : connectRedis(options.redisUrl, label));
  const scripts = options.runsUpstashLua
    ? UNTOUCHED
    : createScripts(checkKeys ? await createKeyGuard(link) : () => '');
  const locking = options.locks && {
    locks: createLocks(options.locks),
    needs: await createLockNeeds(link, scripts.hasKeyLocking),
  };
  const stopping = new AbortController();
  let requests = 0;

  const stats = async () => ({ billed: await countBilled(link), requests });
  const httpPort = createHttpPort(options.port, label, (request, response) => {
    const isControl = request.url?.startsWith('/_gateway/');
    if (!isControl) requests++;
    const served = isControl
      ? serveControl(request, response, { stats, faults })
      : serveRest(request, response, { token, link, scripts, locking, faults, signal: stopping.signal });
    served.catch((error: unknown) => sendFailure(response, error));
  });
  const faults = createFaultSwitch({
    openPort: async () => void (await httpPort.open()),
    closePort: httpPort.close,
    flushScripts: async () => void (await link.send(['SCRIPT', 'FLUSH'])),
    random,
  });
  const stop = async () => {
    stopping.abort();
    await faults.settled();
    await httpPort.close();
    link.close();
  };

  try {
    const port = await httpPort.open();
    return { name, url: `http://${LOOPBACK}:${port}`, port, token, stats, faults, stop };
  } catch (error) {
    link.close();
    throw error;
  }
}

type RestContext = RestOptions & { faults: FaultSwitch; signal: AbortSignal };

async function serveRest(request: IncomingMessage, response: ServerResponse, context: RestContext) {
  const body = await readBody(request);
  const hit = context.faults.draw();
  if (hit.hang) return;
  if (hit.latencyMs > 0) await sleep(hit.latencyMs, undefined, { signal: context.signal });
  const { method = '', url = '', headers } = request;
  const answer =
    fakeAnswer(hit) ??
    (body === undefined
      ? renderError(413, `ERR max request size exceeded: at most ${MAX_BODY_BYTES} bytes`)
      : await answerRest({ method, url, headers, body }, { ...context, scriptError: hit.scriptError }));
  if (hit.loseReply) return void response.destroy();
  await (hit.resetMidReply ? sendHalf(response, answer) : sendAnswer(response, answer));
}

function fakeAnswer({ status, garbage, wrongShape }: Faults): Answer | undefined {
  if (status !== undefined) return renderError(status, `ERR fault: status ${status}`);
  if (garbage) return { status: 200, body: '<html>not what you asked for</html>', contentType: 'text/html' };
  if (wrongShape) return { status: 200, body: '{"outcome":[{"value":true}]}' };
  return undefined;
}

async function serveControl(
  request: IncomingMessage,
  response: ServerResponse,
  control: Parameters<typeof answerControl>[1],
) {
  const body = (await readBody(request)) ?? Buffer.alloc(0);
  const { method = '', url = '' } = request;
  const answer = await answerControl({ method, url, body }, control);
  await sendAnswer(response, answer);
  await answer.afterwards?.();
}

function sendFailure(response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) return;
  const status = error instanceof RedisDownError ? 503 : 500;
  void sendAnswer(
    response,
    renderError(status, `ERR ${error instanceof Error ? error.message : String(error)}`),
  );
}
