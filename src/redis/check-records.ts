// The records of checks in one region, in Upstash Redis.
import { CHECK_RECORD_MS, type CheckRecords } from '../core/ports/check-records.ts';
import { CounterStoreError } from '../core/ports/counter-store.ts';
import type { Client } from './client.ts';

/** A claim ends after this time if its isolate dies before it answers. */
const CLAIM_MS = 60_000;

const keyOf = (name: string) => `weir:{check}:${name}`;

export function createCheckRecords(client: Client): CheckRecords {
  return {
    async claim(name, text, signal) {
      const [set, got] = await client.pipeline(signal, [
        ['SET', keyOf(name), text, 'NX', 'PX', String(CLAIM_MS)],
        ['GET', keyOf(name)],
      ]);
      if (set?.error) throw set.error;
      if (set?.result === 'OK') return undefined;
      if (got?.error) throw got.error;
      if (typeof got?.result !== 'string') throw new CounterStoreError('bad-reply', 'the record is not text');
      return got.result;
    },
    async write(name, text, signal) {
      await client.command(signal, ['SET', keyOf(name), text, 'PX', String(CHECK_RECORD_MS)]);
    },
    async drop(name, signal) {
      await client.command(signal, ['DEL', keyOf(name)]);
    },
  };
}
