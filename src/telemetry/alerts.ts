// Sends thresholds to a webhook. The table `alerts` is the outbox. Before it sends a row, an isolate postpones the
// row's next attempt, so that no other isolate sends it at the same time. The cron run retries failed messages.

import { sql } from 'drizzle-orm';
import { createSigner, fromBase64, toBase64 } from '../core/digest.ts';
import type { MetricSums } from '../core/telemetry/metrics.ts';
import type { Database } from '../rules/tables/repository.ts';

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

interface AlertRow extends Record<string, unknown> {
  readonly id: string;
  readonly rule_id: string;
  readonly rule_name: string;
  readonly scope: string;
  readonly subject: string;
  readonly percent: number;
  readonly limit: string;
  readonly used: string;
  readonly window_seconds: number;
  readonly window_start: string;
  readonly at: string;
}

/** Sends the messages that are due. Returns how many were sent. Throws if the webhook does not accept one. */
export async function sendAlerts(options: AlertOptions): Promise<number> {
  let sent = 0;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const rows = await claim(options.database);
    const results = await Promise.allSettled(rows.map((row) => sendOne(options, row)));
    const failures = results.filter((result) => result.status === 'rejected');
    count(options.sums, { sent: rows.length - failures.length, failed: failures.length });
    const [failed] = failures;
    // If the webhook is down, the other messages wait.
    if (failed) throw failed.reason;
    sent += rows.length;
    if (rows.length < AT_ONCE) break;
  }
  return sent;
}

function count(sums: MetricSums, results: Readonly<Record<'sent' | 'failed', number>>): void {
  for (const [result, messages] of Object.entries(results))
    if (messages > 0) sums.counter('webhook', result).add(messages);
}

async function sendOne({ database, webhook, now }: AlertOptions, row: AlertRow): Promise<void> {
  await postSigned(webhook, { id: `msg_${row.id}`, nowMs: now(), body: JSON.stringify(toMessage(row)) });
  await database.execute(sql`update weir.alerts set sent_at = now() where id = ${row.id}`);
}

async function claim(database: Database): Promise<AlertRow[]> {
  const { rows } = await database.execute<AlertRow>(sql`
    update weir.alerts set attempts = attempts + 1, next_at = now()
      + make_interval(mins => least(${LONGEST_DELAY_MINUTES}, ${FIRST_DELAY_MINUTES} * 2 ^ least(attempts, 10))::int)
    where ctid = any (array (
      select ctid from weir.alerts
      where sent_at is null and next_at <= now() and at > now() - make_interval(hours => ${GIVE_UP_HOURS})
      order by next_at limit ${AT_ONCE} for update skip locked))
    returning id, rule_id, rule_name, scope, subject, percent, "limit"::text, used::text, window_seconds,
      to_json(window_start) #>> '{}' as window_start, to_json(at) #>> '{}' as at`);
  return rows;
}

const toMessage = (row: AlertRow) => ({
  type: 'limit.threshold-reached',
  timestamp: new Date(row.at).toISOString(),
  data: {
    rule: { id: row.rule_id, name: row.rule_name },
    scope: row.scope,
    subject: row.subject,
    percent: row.percent,
    limit: Number(row.limit),
    used: Number(row.used),
    windowSeconds: row.window_seconds,
    windowStart: new Date(row.window_start).toISOString(),
  },
});
