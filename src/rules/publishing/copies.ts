// Where published parts are written: to KV, and to every region's Redis, beside the announcement. An isolate can read the
// copies in Redis at once, while KV may take a minute to have them everywhere. They are a second source: nothing fails
// without them.

import { packText } from '../../core/digest.ts';
import {
  type Announcement,
  formatAnnouncement,
  type PackedText,
  type Published,
  type RulesPointer,
} from '../../core/ports/region.ts';
import { CURRENT_KEY, type Kv, partKey } from '../edge/published.ts';

/** The cron run writes parts in force again every day. Old parts expire. */
const KEPT_SECONDS = 30 * 86_400;

/** KV takes one write a second for each key. If it refuses one, the next cron run writes again. */
export const writeCurrent = (kv: Kv, announcement: Announcement): Promise<void> =>
  kv.put(CURRENT_KEY, formatAnnouncement(announcement));

export const writePart = (kv: Kv, { text, ...part }: PublishedText): Promise<void> =>
  kv.put(partKey(part), text, { expirationTtl: KEPT_SECONDS });

/** For one region. Short, because the announcement waits for it. */
const COPY_MS = 2_000;
/** For one packed part. One request reads both parts, and Upstash limits a request to 10 MB. */
export const MAX_PACKED = 4_000_000;

/** Packs the text once for all regions, if any needs it. */
export function publishedText(part: Published, text: string): PublishedText {
  let packing: Promise<string> | undefined;
  return {
    ...part,
    text,
    async pack() {
      packing ??= packText(text);
      return { ...part, packed: await packing };
    },
  };
}

export interface PublishedText extends Published {
  readonly text: string;
  readonly pack: () => Promise<PackedText>;
}

export interface HowToCopy {
  /** The region's current announcement, of which it has copies. Null if it does not answer: then nothing is written. */
  readonly known: Announcement | undefined | null;
  /** Also writes the parts that the region already has. */
  readonly again: boolean;
  readonly onError: (error: unknown) => void;
}

export async function copyTo(
  pointer: Pick<RulesPointer, 'writeParts'>,
  parts: readonly PublishedText[],
  { known, again, onError }: HowToCopy,
): Promise<void> {
  const missing = parts.filter(({ kind, version }) => again || known?.[kind] !== version);
  if (known === null || missing.length === 0) return;
  try {
    const packed = await Promise.all(missing.map(({ pack }) => pack()));
    const fitting = packed.filter((part) => part.packed.length <= MAX_PACKED);
    if (fitting.length > 0) await pointer.writeParts(fitting, AbortSignal.timeout(COPY_MS));
    if (fitting.length < packed.length) throw new Error('too large for a copy in Redis: only KV has it');
  } catch (error) {
    onError(error);
  }
}
