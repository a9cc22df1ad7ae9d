// Runs the breaker and a plain model of it through the same history.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createBreaker, type Permit } from '../../src/core/regions/breaker.ts';
import { rounds } from '../rounds.ts';
import { createModel } from './breaker-model.ts';

const START_MS = 1_800_000_000_000;

type Step =
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'enter' | 'probe' }
  | { readonly do: 'report'; readonly which: number; readonly hasFailed: boolean };

const call = (hasFailed: boolean): Step[] => [{ do: 'enter' }, { do: 'report', which: 0, hasFailed }];
/** Fewer than half of the calls have failed, but the last five have. */
const SUCCESSES_THEN_FIVE_FAILURES = [
  ...Array.from({ length: 6 }, () => call(false)).flat(),
  ...Array.from({ length: 5 }, () => call(true)).flat(),
];

it('the breaker behaves like a model that keeps everything and searches it from end to end', () => {
  const passedMs = fc.oneof(fc.nat(300), fc.constantFrom(749, 750, 999, 1_000, 1_250, 59_999, 60_000));
  const step: fc.Arbitrary<Step> = fc.oneof(
    { weight: 1, arbitrary: passedMs.map((ms) => ({ do: 'wait', ms }) as const) },
    { weight: 4, arbitrary: fc.constant({ do: 'enter' } as const) },
    { weight: 2, arbitrary: fc.constant({ do: 'probe' } as const) },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant('report' as const),
        which: fc.nat(4),
        hasFailed: fc.nat(9).map((digit) => digit < 6),
      }),
    },
  );
  const dice = fc.constantFrom(0, 0.25, 0.5, 1);
  fc.assert(
    fc.property(dice, fc.array(step, { size: '+1', maxLength: 200 }), (random, steps) => {
      const real = createBreaker({ random: () => random });
      const model = createModel(random);
      const out: { permit: Permit; ofModel: object }[] = [];
      let nowMs = START_MS;
      for (const each of steps) {
        if (each.do === 'wait') nowMs += each.ms;
        if (each.do === 'enter' || each.do === 'probe') {
          const isProbe = each.do === 'probe';
          const permit = isProbe ? real.probe(nowMs) : real.enter();
          const ofModel = isProbe ? model.probe(nowMs) : model.enter();
          expect(permit !== undefined).toBe(ofModel !== undefined);
          if (permit !== undefined && ofModel) out.push({ permit, ofModel });
        }
        if (each.do === 'report') {
          const [reported] = out.splice(each.which % Math.max(1, out.length), 1);
          if (!reported) continue;
          if (each.hasFailed) real.fail(reported.permit, nowMs);
          else real.succeed(reported.permit, nowMs);
          model.report(reported.ofModel, each.hasFailed, nowMs);
        }
        expect(real.state(nowMs)).toBe(model.state(nowMs));
      }
    }),
    { numRuns: rounds(400), examples: [[0, SUCCESSES_THEN_FIVE_FAILURES]] },
  );
});
