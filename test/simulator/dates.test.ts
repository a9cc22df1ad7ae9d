// While a rule moves, two regions count a request at two moments. The judge dates it by one of them.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findUndatable } from '../../local/simulator/dates.ts';
import { type Admission, type Counted, findBeyond } from '../../local/simulator/ledger.ts';
import { rounds } from '../rounds.ts';

const [OLD, NEW] = [0, 1];
const LIMIT = 2;
const counted: Counted = {
  algorithm: 'sliding-window-log',
  windowMs: 1_000,
  boundMs: 0,
  forgettings: [],
};

/** A request, by the moments at which each region has counted it. */
interface Request {
  readonly old?: number | undefined;
  readonly new?: number | undefined;
}

function historyOf(requests: readonly Request[]) {
  const admission = (atMs: number, region: number, request: number): Admission => ({
    atMs,
    region,
    request,
    units: 1,
    limit: LIMIT,
    burst: undefined,
  });
  const counts = requests.map((one, request) =>
    [one.old, one.new].flatMap((atMs, i) =>
      atMs === undefined ? [] : [admission(atMs, i === 0 ? OLD : NEW, request)],
    ),
  );
  return {
    admissions: counts.flatMap((all) => all.slice(0, 1)),
    twins: counts.flatMap((all) => all.slice(1)),
  };
}

describe('requests that two regions have counted', () => {
  // The new region is nearer, so it counts each request 50 ms earlier.
  const start: Request[] = [
    { old: 100 },
    { old: 200 },
    { old: 1_110, new: 1_060 },
    { old: 1_210, new: 1_160 },
  ];
  const end: Request[] = [
    { old: 3_110, new: 3_060 },
    { old: 3_210, new: 3_160 },
    { new: 4_070 },
    { new: 4_170 },
  ];
  const moved = historyOf([...start, ...end]);

  it('keep the limit if they do so by the dates of the old region first, and of the new region later', () => {
    const byNew = moved.admissions.map(
      (one) => moved.twins.find((twin) => twin.request === one.request) ?? one,
    );
    expect(findBeyond(counted, moved.admissions)?.admission.atMs).toBe(4_070);
    expect(findBeyond(counted, byNew)?.admission.atMs).toBe(1_060);
    expect(findUndatable(counted, moved)).toBeUndefined();
  });

  it('exceed the limit if one of them is beyond it by each of its dates', () => {
    for (const one of [{ old: 1_215, new: 1_165 }, { old: 1_215 }, { new: 1_165 }])
      expect(findUndatable(counted, historyOf([...start, one, ...end]))).toBeDefined();
  });

  it('exceed the limit wherever no choice of dates keeps it', () =>
    fc.assert(
      fc.property(fc.array(requests, { maxLength: 8 }), (drawn) => {
        const history = historyOf(drawn);
        const isKept = choices(history).some((one) => findBeyond(counted, one) === undefined);
        if (!isKept) expect(findUndatable(counted, history)).toBeDefined();
      }),
      { numRuns: rounds(300) },
    ));
});

const moment = fc.integer({ min: 0, max: 4_000 });
const requests: fc.Arbitrary<Request> = fc
  .tuple(moment, fc.integer({ min: -100, max: 100 }), fc.constantFrom('old', 'new', 'both'))
  .map(([atMs, laterMs, where]) => ({
    old: where === 'new' ? undefined : atMs,
    new: where === 'old' ? undefined : atMs + laterMs,
  }));

/** Every way to date the requests. */
function choices({ admissions, twins }: ReturnType<typeof historyOf>): Admission[][] {
  return admissions.reduce<Admission[][]>(
    (all, one) => {
      const dates = [one, ...twins.filter(({ request }) => request === one.request)];
      return all.flatMap((some) => dates.map((date) => [...some, date]));
    },
    [[]],
  );
}
