// The snapshot of this isolate. Kept in memory, looked up in KV at most once per interval and off the
// request path; only an isolate that has none yet waits for it.
import type { KVNamespace } from '@cloudflare/workers-types';
import type { Snapshot, SnapshotSource } from '../core/snapshot.ts';
import { readCurrentVersion, readSnapshot } from './snapshot-kv.ts';

const REFRESH_INTERVAL_MS = 1_000;

export interface SnapshotSourceOptions {
  readonly kv: KVNamespace;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

export function createSnapshotSource({ kv, now, onError }: SnapshotSourceOptions): SnapshotSource {
  let snapshot: Snapshot | undefined;
  let lookedUpAt = Number.NEGATIVE_INFINITY;

  // What is kept between requests are values; each request awaits only promises of its own.
  const refresh = async () => {
    lookedUpAt = now();
    try {
      const version = await readCurrentVersion(kv);
      if (version === null || version === snapshot?.version) return;
      snapshot = (await readSnapshot(kv, version)) ?? snapshot;
    } catch (error) {
      onError(error);
    }
  };

  return {
    async current(afterResponse) {
      const due = now() - lookedUpAt >= REFRESH_INTERVAL_MS;
      if (snapshot === undefined) await refresh();
      else if (due) afterResponse(refresh());
      return snapshot;
    },
  };
}
