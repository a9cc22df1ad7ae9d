// Loads the rules in force, for routes that show them. The rules in the isolate's memory may be a moment old.
import type { Snapshot } from '../../core/matching/snapshot.ts';
import type { RulesPointer } from '../../core/ports/region.ts';
import type { SnapshotSource } from '../../core/ports/snapshot-source.ts';

export interface FreshRulesOptions {
  readonly snapshots: SnapshotSource;
  readonly regions: readonly { readonly pointer: Pick<RulesPointer, 'read' | 'readPublished'> }[];
  readonly deadlineMs: number;
}

/** Follows the first region that answers. If none answers, returns the rules that this isolate has. */
export async function readFreshRules(options: FreshRulesOptions): Promise<Snapshot | undefined> {
  const { snapshots, regions, deadlineMs } = options;
  for (const { pointer } of regions) {
    if (!snapshots.current()) await snapshots.start(pointer);
    const announced = await pointer.read(AbortSignal.timeout(deadlineMs)).catch(() => undefined);
    if (announced === undefined) continue;
    if (announced !== snapshots.announced()) await snapshots.load({ announced, pointer });
    break;
  }
  return snapshots.current();
}
