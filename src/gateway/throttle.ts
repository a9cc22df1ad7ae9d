// `throttle` delays a request until its turn instead of denying it.
import { type Decision, resultsOf } from '../core/decision.ts';

/** The longest wait that a rule asks for; 0 if none does. */
export const waitOf = (decision: Decision): number =>
  Math.max(
    0,
    ...resultsOf(decision)
      .filter(({ check }) => check.rule.action === 'throttle' && !check.isShadow)
      .map(({ outcome }) => outcome.delayMs),
  );

/** False if the client leaves during the wait. */
export function waitForTurn(ms: number, client: AbortSignal): Promise<boolean> {
  if (client.aborted) return Promise.resolve(false);
  if (ms <= 0) return Promise.resolve(true);
  return new Promise((resolve) => {
    const end = (isTurn: boolean) => {
      clearTimeout(timer);
      client.removeEventListener('abort', leave);
      resolve(isTurn);
    };
    const leave = () => end(false);
    const timer = setTimeout(() => end(true), ms);
    client.addEventListener('abort', leave);
  });
}
