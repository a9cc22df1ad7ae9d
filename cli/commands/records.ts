// `weir why` says why a request was denied, `weir top` who was denied most, and `weir tail` prints denials as they are
// recorded.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Command, type CommandContext, CommandError, textOption } from '../command.ts';
import { renderTable } from '../table.ts';

interface Violators {
  readonly items: readonly {
    readonly scope?: string;
    readonly subject: string;
    /** Of a rule or a key. */
    readonly name: string | null;
    readonly tenantId?: string | null;
    readonly count: number;
    readonly lastAt: string;
    readonly rules: readonly { readonly id: string; readonly name: string }[];
  }[];
}

/** The options that narrow a question, and the parameter of each. */
const FILTERS = { rule: 'rule', tenant: 'tenant', user: 'user', key: 'apiKey' } as const;
const FILTER_WORDS = { rule: 'RULE', tenant: 'ID', user: 'ID', key: 'KEY' } as const;
const FILTER_USAGE = '[--rule RULE] [--tenant ID] [--user ID] [--key KEY]';

/** `given` names the parameter of each option. */
function queryOf(
  { options }: CommandContext,
  given: Readonly<Record<string, string>>,
  fixed: Readonly<Record<string, string>>,
): URLSearchParams {
  const query = new URLSearchParams(fixed);
  for (const [option, name] of Object.entries(given)) {
    const value = textOption(options, option);
    if (value !== undefined) query.set(name, value);
  }
  return query;
}

export const top: Command = {
  usage: `top [--group-by all|ip|user|apiKey|tenant|rule] [--since 24h] [--limit 10] ${FILTER_USAGE}`,
  does: 'lists who was denied most; RULE and KEY are names or ids',
  options: { 'group-by': 'KIND', since: 'TIME', limit: 'N', ...FILTER_WORDS },
  async run(context) {
    const { api, say, report } = context;
    const given = { 'group-by': 'groupBy', since: 'since', limit: 'limit', ...FILTERS };
    const { items } = await api.admin<Violators>(
      'GET',
      `/violators?${queryOf(context, given, { limit: '10' })}`,
    );
    report({ items });
    const rows = items.map(({ scope = '', subject, name, tenantId, count, lastAt, rules }) => [
      [scope, name === null ? subject : `${name} (${subject})`].filter(Boolean).join(' '),
      scope === 'tenant' ? '' : (tenantId ?? ''),
      String(count),
      lastAt,
      rules.map((rule) => rule.name).join(', '),
    ]);
    const header = ['caller', 'tenant', 'denied', 'last', 'rules'];
    for (const line of rows.length === 0 ? ['nobody was denied'] : renderTable([header, ...rows])) say(line);
    return 0;
  },
};

interface Event {
  readonly at: string;
  readonly scope: string;
  readonly ruleId: string;
  readonly ruleName: string;
  readonly subject: string;
  readonly tenantId: string | null;
  readonly userId: string | null;
  readonly apiKeyId: string | null;
  readonly apiKeyName: string | null;
  readonly count: number;
}

const SECOND_MS = 1_000;
/** A timer of more than 24 days would fire at once. */
const A_DAY_SECONDS = 86_400;

export const tail: Command = {
  usage: `tail [--every SECONDS] [--for SECONDS] ${FILTER_USAGE}`,
  does: 'prints denials as they are recorded, until it is stopped; with --json a line for each',
  options: { every: 'SECONDS', for: 'SECONDS', ...FILTER_WORDS },
  async run(context) {
    const everyMs = secondsOf(context, 'every', 2) * SECOND_MS;
    const endMs = Date.now() + secondsOf(context, 'for', Number.POSITIVE_INFINITY) * SECOND_MS;
    const query = queryOf(context, FILTERS, { since: '5m', limit: '1000' });
    let known: ReadonlyMap<string, number> | undefined;
    for (;;) {
      const { items } = await context.api.admin<{ items: readonly Event[] }>('GET', `/events?${query}`);
      // The first answer has old denials only.
      if (known) for (const event of newsOf(items, known)) print(context, event);
      known = new Map(items.map((event) => [idOf(event), event.count]));
      if (Date.now() + everyMs > endMs) return 0;
      await sleep(everyMs);
    }
  },
};

/** One row sums up the denials of a minute. If a row has grown, the growth is new. */
export const newsOf = (events: readonly Event[], known: ReadonlyMap<string, number>): Event[] =>
  events
    .map((event) => ({ ...event, count: event.count - (known.get(idOf(event)) ?? 0) }))
    .filter(({ count }) => count > 0)
    .reverse();

const idOf = ({ at, scope, ruleId, subject, tenantId, userId, apiKeyId }: Event) =>
  JSON.stringify([at, scope, ruleId, subject, tenantId, userId, apiKeyId]);

function print({ say, report }: CommandContext, event: Event): void {
  report(event);
  const { at, scope, subject, count, ruleName } = event;
  say(`${at.slice(0, 16)}  ${scope} ${subject}  ${count} × ${ruleName}${callerText(event)}`);
}

/** Who called, if the rule has counted something else. */
function callerText({ scope, tenantId, userId, apiKeyId, apiKeyName }: Event): string {
  const ids = { tenant: tenantId, user: userId, apiKey: apiKeyId };
  const others = Object.entries(ids).flatMap(([kind, id]) =>
    id === null || kind === scope ? [] : [kind === 'apiKey' ? `key ${apiKeyName ?? id}` : `${kind} ${id}`],
  );
  return others.length === 0 ? '' : `  (${others.join(', ')})`;
}

function secondsOf({ options }: CommandContext, name: string, otherwise: number): number {
  const value = textOption(options, name);
  if (value === undefined) return otherwise;
  if (!/^\d+(\.\d+)?$/.test(value) || Number(value) > A_DAY_SECONDS)
    throw new CommandError(`--${name} must be a number of seconds, at most ${A_DAY_SECONDS}`);
  return Number(value);
}

interface DeniedRequest {
  readonly requestId: string;
  readonly at: string;
  readonly status: number;
  readonly code: string;
  readonly method: string;
  readonly route: string;
  readonly region: string;
  readonly tenantId: string | null;
  readonly userId: string | null;
  readonly apiKeyId: string | null;
  readonly apiKeyName: string | null;
  readonly rules: readonly {
    readonly id: string;
    readonly name: string;
    readonly resource: string;
    readonly scope: string;
    readonly subject: string;
    readonly limit: number;
    readonly windowSeconds: number;
    readonly cost: number;
    readonly remaining: number;
    readonly retryAfterMs: number | null;
  }[];
}

export const why: Command = {
  usage: `why [REQUEST-ID] ${FILTER_USAGE}`,
  does: 'says why a request of the last day was denied; without an id, lists a sample of them',
  options: FILTER_WORDS,
  async run(context) {
    const { api, words, say, report } = context;
    const [id] = words;
    if (id !== undefined) {
      const request = await api.admin<DeniedRequest>('GET', `/denials/${encodeURIComponent(id)}`);
      report(request);
      for (const line of linesOf(request)) say(line);
      return 0;
    }
    const query = queryOf(context, FILTERS, {});
    const { items } = await api.admin<{ items: readonly DeniedRequest[] }>('GET', `/denials?${query}`);
    report({ items });
    const rows = items.map((one) => [
      ...[one.requestId, one.at, callerOf(one)],
      one.rules.map(({ name }) => name).join(', ') || one.code,
    ]);
    const header = ['request', 'at', 'caller', 'denied by'];
    for (const line of rows.length === 0 ? ['no such request'] : renderTable([header, ...rows])) say(line);
    return 0;
  },
};

const linesOf = (request: DeniedRequest): string[] => [
  `${request.at}: ${request.method} was answered ${request.status} ${request.code}`,
  `caller: ${callerOf(request)}; route ${request.route}, region ${request.region}`,
  ...request.rules.map(
    ({ id, name, resource, scope, subject, limit, windowSeconds, cost, remaining, retryAfterMs }) =>
      `denied by ${name} (${id}) for ${resource}, counted as ${scope} ${subject}: ` +
      `${limit} in ${windowSeconds} s, ${remaining} left, cost ${cost}, ` +
      (retryAfterMs === null
        ? 'no wait would have helped'
        : `retry after ${Math.ceil(retryAfterMs / 1_000)} s`),
  ),
];

function callerOf({ tenantId, userId, apiKeyId, apiKeyName }: DeniedRequest): string {
  const key = apiKeyName === null ? apiKeyId : `${apiKeyName} (${apiKeyId})`;
  const known = [key && `key ${key}`, userId && `user ${userId}`, tenantId && `tenant ${tenantId}`];
  return known.filter(Boolean).join(', ') || 'no id';
}
