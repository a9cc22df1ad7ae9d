// Posts a message to a webhook, signed as Standard Webhooks specifies: HMAC-SHA-256 over its id, the time and the body.
import { createSigner, fromBase64, toBase64 } from '../core/digest.ts';

export interface Webhook {
  readonly url: string;
  /** `whsec_` and the key in base64. */
  readonly secret: string;
}

export interface Message {
  /** The same for every attempt, so that receivers recognize a repeated message. */
  readonly id: string;
  readonly nowMs: number;
  readonly body: string;
}

const TIMEOUT_MS = 10_000;

export class WebhookError extends Error {
  override readonly name = 'WebhookError';
}

export async function postSigned({ url, secret }: Webhook, message: Message): Promise<void> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...(await signedHeaders(secret, message)) },
    body: message.body,
    // A signed message goes only to the URL that the operator has configured.
    redirect: 'manual',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  await answer.body?.cancel();
  if (!answer.ok) throw new WebhookError(`ALERT_WEBHOOK answered ${answer.status}`);
}

export async function signedHeaders(secret: string, { id, nowMs, body }: Message) {
  const timestamp = String(Math.floor(nowMs / 1_000));
  const sign = createSigner(fromBase64(secret.slice('whsec_'.length)));
  const signature = toBase64(await sign(`${id}.${timestamp}.${body}`));
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` };
}
