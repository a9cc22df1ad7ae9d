// Stops loops: a route can lead back to Weir. Each request to an origin names the Weirs that it has passed. A Weir
// that finds itself among them answers 508.
import { digest, toHex } from '../core/digest.ts';
import { problem } from '../http/problem.ts';
import { HOP_HEADER } from './request-headers.ts';

const HOPS = /^[0-9a-f]{16}(?:, [0-9a-f]{16}){0,7}$/;
const MAX_HOPS = 8;

type Sent = Pick<Request, 'headers'>;

export interface LoopGuard {
  /** A 508 if the request has been here before, else undefined. */
  refuse(request: Sent): Promise<Response | undefined>;
  /** The value of the hop header for the request to the origin. Most requests have passed no other Weir before. */
  mark(request: Sent, isFirst: boolean): Promise<string> | string;
}

/** `identity` is the same in all isolates of this Weir and in no other Weir. It is never sent itself. */
export function createLoopGuard(identity: string): LoopGuard {
  let id: string | undefined;
  const ownId = async () => {
    id ??= toHex((await digest('SHA-256', `weir-hop ${identity}`)).slice(0, 8));
    return id;
  };
  return {
    async refuse({ headers }) {
      const hops = hopsIn(headers);
      if (hops.length === 0) return undefined;
      return hops.length === MAX_HOPS || hops.includes(await ownId()) ? loopDetected() : undefined;
    },
    mark({ headers }, isFirst) {
      if (isFirst) return id ?? ownId();
      return ownId().then((own) => [...hopsIn(headers), own].join(', '));
    },
  };
}

function hopsIn(headers: Headers): readonly string[] {
  const text = headers.get(HOP_HEADER);
  return text !== null && HOPS.test(text) ? text.split(', ') : [];
}

const loopDetected = () =>
  problem({
    status: 508,
    code: 'loop-detected',
    title: 'The request came back to Weir',
    detail: 'The origin of its route, or ORIGIN_URL, leads to Weir itself.',
  });
