// The machine that counts, with its driver and a memory of its own, as the limiter uses them.
import { isDenying } from '../../src/core/decision.ts';
import { createCalls } from '../../src/limiter/calls.ts';
import {
  type Conclusion,
  type CountRequest,
  type DenialRequest,
  knownDenial,
} from '../../src/limiter/count.ts';
import { createDeadline } from '../../src/limiter/deadline.ts';
import { createLeaseBook } from '../../src/limiter/leases.ts';
import { createKnownDenials } from '../../src/limiter/memory.ts';
import { createTransfers } from '../../src/limiter/transfers.ts';
import { DEADLINE_MS } from './fake-regions.ts';

/** What a test says about a request. The rest is as usual. */
export type CountedRequest = Pick<CountRequest, 'placed' | 'regions' | 'ledger' | 'afterResponse'> &
  Partial<CountRequest>;

export function createCountingIsolate(now: () => number) {
  const denials = createKnownDenials();
  const memory = { now, denials, transfers: createTransfers(now), leases: createLeaseBook(now) };
  const countChecks = createCalls(memory);
  return {
    knownDenial: (request: DenialRequest) => knownDenial(memory, request),
    /** A denied request keeps no charge. */
    async count(request: CountedRequest): Promise<Conclusion> {
      const { ledger, afterResponse } = request;
      const conclusion = await countChecks({
        operation: 'take',
        withAnnouncement: false,
        deadline: createDeadline(DEADLINE_MS, now),
        announcement: 'announcement',
        ...request,
      });
      if (!conclusion.results.some(isDenying) || ledger.isEmpty) return conclusion;
      denials.unsettle(ledger.charges, now());
      afterResponse(ledger.undo());
      return conclusion;
    },
  };
}
