// While a rule moves, two regions count a request, each at a moment of its own. It is one request, and it has one date:
// one of the two. A limit was kept if the requests can be dated so that the definition allows all of them.
import { type Admission, type Beyond, type Counted, findBeyond } from './ledger.ts';

export interface Dated {
  /** In order of the requests, each by the region that was noted first. */
  readonly admissions: readonly Admission[];
  /** The same requests as other regions have counted them. */
  readonly twins: readonly Admission[];
}

/** A history, and how many requests of it pass before one is too many. */
interface Judged {
  readonly history: readonly Admission[];
  readonly beyond: Beyond | undefined;
  readonly reached: number;
}

/** The search tries this many moments for a change from the dates of one region to those of another. */
const TRIED = 16;

/**
 * The first request beyond the limit by all dates; undefined if there is none. At the start of a move, the dates of the
 * old region fit, at its end those of the new one. So where the dates of one region do not fit, the search takes those
 * of another from some earlier request on, as long as more requests fit.
 */
export function findUndatable(counted: Counted, { admissions, twins }: Dated): Beyond | undefined {
  const judge = (history: readonly Admission[]): Judged => {
    const beyond = findBeyond(counted, history);
    const reached = beyond ? history.findIndex(({ request }) => request === beyond.admission.request) : 0;
    return { history, beyond, reached: beyond ? reached : history.length };
  };
  const ways = waysToDate({ admissions, twins });
  let best = furthest(ways.map(judge));
  for (;;) {
    const { history, beyond, reached } = best;
    if (!beyond) return undefined;
    const moments = momentsBefore(reached, admissions, twins);
    const changed = moments.flatMap((at) =>
      ways.map((way) => judge([...history.slice(0, at), ...way.slice(at)])),
    );
    const next = furthest([best, ...changed]);
    if (next.reached <= reached) return beyond;
    best = next;
  }
}

const furthest = ([first, ...others]: readonly Judged[]): Judged =>
  others.reduce((best, one) => (one.reached > best.reached ? one : best), first as Judged);

/** All requests once, by the dates of one region where it has counted them: a history for each region with twins. */
function waysToDate({ admissions, twins }: Dated): (readonly Admission[])[] {
  const regions = new Set(twins.map(({ region }) => region));
  const ways = [...regions].map((region) => {
    const there = new Map(twins.filter((twin) => twin.region === region).map((twin) => [twin.request, twin]));
    return admissions.map((one) => {
      const twin = one.region === region ? undefined : there.get(one.request);
      return twin ? { ...one, atMs: twin.atMs, region } : one;
    });
  });
  return [admissions, ...ways];
}

/** Places of requests with twins, up to the one that is too many. */
function momentsBefore(
  reached: number,
  admissions: readonly Admission[],
  twins: readonly Admission[],
): number[] {
  const twice = new Set(twins.map(({ request }) => request));
  const places = [...admissions.keys()].filter(
    (place) => place <= reached && twice.has(admissions[place]?.request ?? -1),
  );
  const step = Math.max(1, Math.ceil(places.length / TRIED));
  return places.filter((_, i) => (places.length - 1 - i) % step === 0);
}
