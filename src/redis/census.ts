// The list of isolates of one region, in Upstash Redis.
import census from '../../lua/census.lua';
import { CENSUS_KEY } from '../core/counting/keys.ts';
import { type CensusBoard, isIsolateCount } from '../core/ports/census.ts';
import { CounterStoreError } from '../core/ports/counter-store.ts';
import type { Client } from './client.ts';

/** Isolates come once a minute: one that missed a minute is still counted, one that missed two is gone. */
const KEEP_MS = 150_000;

export function createCensusBoard(client: Pick<Client, 'command'>): CensusBoard {
  return {
    async present(isolateId, signal) {
      // Once a minute, the text is no burden; its SHA would need a way back when Redis has lost the script.
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
