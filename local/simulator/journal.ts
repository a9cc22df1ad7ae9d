// Writes down what happens to one subject, line by line, for people who look into a failure.
import type { Answer } from '../../src/core/counting/check.ts';
import type { Decision } from '../../src/core/decision.ts';
import type { CounterCall } from '../../src/core/ports/region.ts';
import type { SentCall } from './isolate.ts';
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
    method === 'run' && (args[0] as CounterCall).checks.some((check) => check.key === key);
  return {
    lines,
    say,
    open(call) {
      if (key === undefined || !isAbout(call)) return undefined;
      const { operation, checks } = call.args[0] as CounterCall;
      const asked = checks.map(({ id, limit, cost }) => `${id} ${cost} of ${limit}`).join(', ');
      const who = `${nameOf(call.caller)} → ${REGIONS[call.region]} ${operation} (${asked})`;
      say(who);
      return {
        tell: (line) => say(`${nameOf(call.caller)} ${line}`),
        onRun: (answer) => say(`${who} runs: ${sayOutcomes(answer as Answer)}`),
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

const sayOutcomes = ({ nowMs, outcomes }: Answer) =>
  `at ${nowMs - START_MS} by its clock, ${outcomes
    .map(({ allowed, remaining, ...more }) => {
      const { transferredTo } = more as { transferredTo?: string };
      return `${allowed ? 'yes' : 'no'}, ${remaining} left${transferredTo ? `, moved to ${transferredTo}` : ''}`;
    })
    .join('; ')}`;
