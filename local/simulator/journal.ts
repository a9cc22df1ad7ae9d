// Writes down what happens to one subject, line by line, for people who look into a failure.
import type { Answer, Outcome } from '../../src/core/counting/check.ts';
import type { Decision } from '../../src/core/decision.ts';
import type { CountCall } from '../../src/core/ports/region.ts';
import { operationOf, type SentCall } from './isolate.ts';
import type { Caller } from './network.ts';
import { REGIONS, START_MS } from './scenario.ts';
import type { VirtualTime } from './virtual-time.ts';

export interface Journal {
  readonly lines: readonly string[];
  say(line: string): void;
  /** Undefined if the call is not about the subject. */
  open(call: SentCall): { tell(line: string): void; onRun(answer: unknown): void } | undefined;
  decided(
    subject: string,
    of: { readonly request: number; readonly isolate: Caller; readonly decision: Decision },
  ): void;
}

const nameOf = ({ place, number }: Caller) => `${REGIONS[place]}#${number}`;

/** Without a key it keeps nothing. */
export function createJournal(key: string | undefined, time: Pick<VirtualTime, 'now'>): Journal {
  const lines: string[] = [];
  const say = (line: string) => {
    if (key !== undefined) lines.push(`${String(time.now() - START_MS).padStart(8)} ${line}`);
  };
  const isAbout = ({ method, args }: SentCall) =>
    operationOf(method) !== undefined && (args[0] as CountCall).checks.some((check) => check.key === key);
  return {
    lines,
    say,
    open(call) {
      if (key === undefined || !isAbout(call)) return undefined;
      const { checks } = call.args[0] as CountCall;
      const asked = checks.map(({ id, limit, cost }) => `${id} ${cost} of ${limit}`).join(', ');
      const who = `${nameOf(call.caller)} → ${REGIONS[call.region]} ${call.method} (${asked})`;
      say(who);
      return {
        tell: (line) => say(`${nameOf(call.caller)} ${line}`),
        onRun: (answer) => say(`${who} runs: ${sayReplies(answer as Answer<unknown>)}`),
      };
    },
    decided(subject, { request, isolate, decision }) {
      if (key === undefined || !key.includes(`=${subject}}`)) return;
      const why = decision.kind === 'degraded' ? ` (${decision.reason})` : '';
      say(
        `request ${request} at ${nameOf(isolate)}: ${decision.kind} ${decision.allowed ? 'passes' : 'denied'}${why}`,
      );
    },
  };
}

const sayReplies = ({ nowMs, outcomes }: Answer<unknown>) =>
  `at ${nowMs - START_MS} by its clock, ${outcomes.map(sayReply).join('; ')}`;

function sayReply(reply: unknown): string {
  if (typeof reply === 'string') return reply;
  const { allowed, remaining, transferredTo, ...more } = reply as Partial<Outcome>;
  if (allowed === undefined) return JSON.stringify(remaining === undefined ? more : { remaining });
  const owner = transferredTo ? `, moved to ${transferredTo.name}` : '';
  return `${allowed ? 'yes' : 'no'}, ${remaining} left${owner}`;
}
