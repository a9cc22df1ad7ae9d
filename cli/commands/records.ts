// `weir top` lists who was denied most; `weir tail` prints denials as they are recorded.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Command, type CommandContext, CommandError, textOption } from '../command.ts';
import { renderTable } from '../table.ts';

interface Violators {
  readonly items: readonly {
    readonly subject: string;
    readonly count: number;
    readonly lastAt: string;
    readonly rules: readonly string[];
  }[];
}

export const top: Command = {
  usage: 'top [--group-by ip|user|apiKey|tenant|rule] [--since 24h] [--limit 10]',
  does: 'lists who was denied most',
  options: { 'group-by': 'KIND', since: 'TIME', limit: 'N' },
  async run({ api, options, say, report }) {
    const query = new URLSearchParams({ limit: textOption(options, 'limit') ?? '10' });
    for (const [option, name] of [
      ['group-by', 'groupBy'],
      ['since', 'since'],
    ] as const) {
      const value = textOption(options, option);
      if (value !== undefined) query.set(name, value);
    }
    const { items } = await api.admin<Violators>('GET', `/violators?${query}`);
    report({ items });
    const rows = items.map(({ subject, count, lastAt, rules }) => [
      subject,
      String(count),
      lastAt,
      rules.join(', '),
    ]);
    const header = ['subject', 'denied', 'last', 'rules'];
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
  readonly count: number;
}

const SECOND_MS = 1_000;
/** A timer of more than 24 days would fire at once. */
const A_DAY_SECONDS = 86_400;

export const tail: Command = {
  usage: 'tail [--rule NAME] [--every SECONDS] [--for SECONDS]',
  does: 'prints denials as they are recorded, until it is stopped; with --json a line for each',
  options: { rule: 'NAME', every: 'SECONDS', for: 'SECONDS' },
  async run(context) {
    const everyMs = secondsOf(context, 'every', 2) * SECOND_MS;
    const endMs = Date.now() + secondsOf(context, 'for', Number.POSITIVE_INFINITY) * SECOND_MS;
    const query = new URLSearchParams({ since: '5m', limit: '1000' });
    const rule = textOption(context.options, 'rule');
    if (rule !== undefined) query.set('rule', rule);
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

const idOf = ({ at, scope, ruleId, subject }: Event) => JSON.stringify([at, scope, ruleId, subject]);

function print({ say, report }: CommandContext, event: Event): void {
  report(event);
  say(`${event.at.slice(0, 16)}  ${event.scope} ${event.subject}  ${event.count} × ${event.ruleName}`);
}

function secondsOf({ options }: CommandContext, name: string, otherwise: number): number {
  const value = textOption(options, name);
  if (value === undefined) return otherwise;
  if (!/^\d+(\.\d+)?$/.test(value) || Number(value) > A_DAY_SECONDS)
    throw new CommandError(`--${name} must be a number of seconds, at most ${A_DAY_SECONDS}`);
  return Number(value);
}
