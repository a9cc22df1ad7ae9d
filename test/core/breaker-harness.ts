// A breaker with a clock and dice that the test sets.
import { type BreakerState, createBreaker, type Permit } from '../../src/core/regions/breaker.ts';

export const START_MS = 1_800_000_000_000;
export const SUCCESS = false;
export const FAILURE = true;

/** A breaker with its clock and its dice, and all changes that it has reported. */
export function openIsolate(random = () => 0.5) {
  const clock = { ms: START_MS };
  const changes: BreakerState[] = [];
  const breaker = createBreaker({ random, onChange: (state) => changes.push(state) });
  const enter = () => breaker.enter();
  const probe = () => breaker.probe(clock.ms);
  /** A permit of a request, or of a probe where no request may pass. */
  const permit = () => {
    const given = enter() ?? probe();
    if (given === undefined) throw new Error('not let in');
    return given;
  };
  const report = (given: Permit, hasFailed: boolean) =>
    hasFailed ? breaker.fail(given, clock.ms) : breaker.succeed(given, clock.ms);
  const call = (hasFailed: boolean, times = 1) => {
    for (let i = 0; i < times; i += 1) report(permit(), hasFailed);
  };
  return { clock, changes, enter, probe, permit, report, call, state: () => breaker.state(clock.ms) };
}

/** A breaker that is open since this moment. */
export function openBreaker(random?: () => number) {
  const isolate = openIsolate(random);
  isolate.call(FAILURE, 5);
  return isolate;
}

/** A half-open breaker that has granted no probe yet. */
export function halfOpenBreaker() {
  const isolate = openBreaker();
  isolate.clock.ms += 1_000;
  return isolate;
}
