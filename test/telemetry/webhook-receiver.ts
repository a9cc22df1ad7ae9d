// A webhook's receiver on loopback. It checks every signature with its own implementation.
import { createHmac, randomBytes } from 'node:crypto';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { text } from 'node:stream/consumers';
import { close, LOOPBACK, listen } from '../../local/ports.ts';

export interface Received {
  readonly id: string;
  readonly isSigned: boolean;
  readonly body: {
    readonly type: string;
    readonly timestamp: string;
    readonly data: Readonly<Record<string, unknown>>;
  };
}

export async function startReceiver() {
  const key = randomBytes(32);
  const received: Received[] = [];
  const answers = { status: 204 };
  const isSigned = (headers: IncomingHttpHeaders, body: string) => {
    const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
    return headers['webhook-signature'] === `v1,${createHmac('sha256', key).update(signed).digest('base64')}`;
  };
  const server = createServer(async (request, response) => {
    const body = await text(request);
    const id = String(request.headers['webhook-id']);
    received.push({ id, isSigned: isSigned(request.headers, body), body: JSON.parse(body) });
    response.writeHead(answers.status, { Location: '/elsewhere' }).end();
  });
  const port = await listen(server, 0, 'the receiver of a webhook');
  return {
    webhook: { url: `http://${LOOPBACK}:${port}/alerts`, secret: `whsec_${key.toString('base64')}` },
    received,
    answers,
    [Symbol.asyncDispose]: () => close(server),
  };
}

export type Receiver = Awaited<ReturnType<typeof startReceiver>>;
