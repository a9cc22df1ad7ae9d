// While a rule moves, two regions charge a request, the old one first. It is one request, admitted at one moment: the
// charge in the region that goes on counting every request. As long as some isolate counts in the old region alone, that
// is the old region. From then on it is the new one. docs/regions.md says why no window exceeds the limit by these dates.
import type { Admission } from './ledger.ts';

/** Takes the charges of each request, and returns the one that dates it. */
export function dateRequests(requests: readonly (readonly Admission[])[]): Admission[] {
  if (requests.every((charges) => charges.length === 1)) return requests.flat();
  const inOrder = requests
    .map((charges) => charges.toSorted((a, b) => a.atMs - b.atMs))
    .sort(([a], [b]) => (a?.atMs ?? 0) - (b?.atMs ?? 0));
  const dated: Admission[] = [];
  /** The regions that go on counting after the request at hand: from the last request back to the first. */
  let counting = new Set<number>();
  for (const charges of inOrder.toReversed()) {
    const going = charges.filter(({ region }) => counting.has(region));
    const candidates = going.length > 0 ? going : charges;
    counting = new Set(candidates.map(({ region }) => region));
    const newest = candidates.at(-1);
    if (newest) dated.push(newest);
  }
  return dated;
}
