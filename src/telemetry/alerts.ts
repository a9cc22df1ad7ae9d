// Sends thresholds to a webhook. The table `alerts` is the outbox. Before it sends a row, an isolate postpones the
// row's next attempt, so that no other isolate sends it at the same time. The cron run retries failed messages.

import { sql } from 'drizzle-orm';
import { createSigner, fromBase64, toBase64 } from '../core/digest.ts';
import type { MetricSums } from '../core/telemetry/metrics.ts';
import type { Database } from '../rules/tables/repository.ts';
import { isoTime } from './tables.ts';

// Posts a message to a webhook, signed as Standard Webhooks specifies: HMAC-SHA-256 over its id, the time and the body.

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

/** Workers wait for the headers of six answers at once. */
const AT_ONCE = 6;
/** In one run. The next run sends the rest. */
const MAX_ROUNDS = 20;
/** Longer than a webhook may take to answer, so that no isolate sends a message again while it is in flight. */
const FIRST_DELAY_MINUTES = 1;
const LONGEST_DELAY_MINUTES = 60;
/** A message that failed for this long is no longer news. */
const GIVE_UP_HOURS = 24;

export interface AlertOptions {
  readonly database: Database;
  readonly webhook: Webhook;
  readonly now: () => number;
  /** Counts the messages that the webhook has accepted, and those that failed. */
  readonly sums: MetricSums;
}

/** Sends the messages that are due. Returns how many were sent. Throws if the webhook does not accept one. */
export async function sendAlerts(options: AlertOptions): Promise<number> {
  const { database, sums } = options;
  let sent = 0;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const rows = await claim(database);
    const results = await Promise.allSettled(rows.map((row) => sendOne(options, row)));
    const failures = results.filter((result) => result.status === 'rejected');
    sums.series('webhookMessages', 'sent').add(rows.length - failures.length);
    sums.series('webhookMessages', 'failed').add(failures.length);
    const [failed] = failures;
    // If the webhook is down, the other messages wait.
    if (failed) throw failed.reason;
    sent += rows.length;
    if (rows.length < AT_ONCE) break;
  }
  return sent;
}

interface DueAlert extends Record<string, unknown> {
  readonly id: string;
  /** The message, without its type. */
  readonly message: object;
}

async function sendOne({ database, webhook, now }: AlertOptions, { id, message }: DueAlert): Promise<void> {
  const body = JSON.stringify({ type: 'limit.threshold-reached', ...message });
  await postSigned(webhook, { id: `msg_${id}`, nowMs: now(), body });
  await database.execute(sql`update weir.alerts set sent_at = now() where id = ${id}`);
}

async function claim(database: Database): Promise<DueAlert[]> {
  const { rows } = await database.execute<DueAlert>(sql`
    update weir.alerts set attempts = attempts + 1, next_at = now()
      + make_interval(mins => least(${LONGEST_DELAY_MINUTES}, ${FIRST_DELAY_MINUTES} * 2 ^ least(attempts, 10))::int)
    where ctid = any (array (
      select ctid from weir.alerts
      where sent_at is null and next_at <= now() and at > now() - make_interval(hours => ${GIVE_UP_HOURS})
      order by next_at limit ${AT_ONCE} for update skip locked))
    returning id, json_build_object('timestamp', ${isoTime(sql`at`)}, 'data', json_build_object(
      'rule', json_build_object('id', rule_id, 'name', rule_name), 'scope', scope, 'subject', subject,
      'percent', percent, 'limit', "limit", 'used', used,
      'windowSeconds', window_seconds, 'windowStart', ${isoTime(sql`window_start`)})) as message`);
  return rows;
}
