// The list of isolates of one region, in Upstash Redis.
import census from '../../lua/census.lua';
import { CENSUS_KEY } from '../core/counting/keys.ts';
import { type CensusBoard, isIsolateCount } from '../core/ports/census.ts';
import { CounterStoreError } from '../core/ports/counter-store.ts';
import type { Client } from './client.ts';

/** Isolates report once a minute. One that missed a minute still counts; one that missed two does not. */
const KEEP_MS = 150_000;

export function createCensusBoard(client: Pick<Client, 'command'>): CensusBoard {
  return {
    async present(isolateId, signal) {
      // Sends the whole script, because it runs once a minute. A SHA would need a retry when Redis has lost the script.
      const count: unknown = await client.command(signal, [
        'EVAL',
        census,
        '1',
        CENSUS_KEY,
        isolateId,
        String(KEEP_MS),
      ]);
      if (!isIsolateCount(count))
        throw new CounterStoreError('bad-reply', 'the reply is not a number of isolates');
      return count;
    },
  };
}
