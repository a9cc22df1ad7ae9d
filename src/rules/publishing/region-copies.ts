// A copy of what is published in every region's Redis, beside the announcement that names it: an isolate that is told of
// it can read it at once, though KV may take a minute to have it everywhere. It is a second way: nothing fails without it.

import { packText } from '../../core/packed-text.ts';
import type { Announcement, AnnouncementBoard, PackedPart, Part } from '../../core/ports/announcement.ts';

/** For one region: not for long, because the announcement waits for it. */
const COPY_MS = 2_000;
/** Of one part, packed. Both are read with one request, and Upstash limits one to 10 MB. */
export const MAX_PACKED = 4_000_000;

/** Packed once for all regions, if any needs it. */
export function createPart(part: Part, text: string): PublishedPart {
  let packing: Promise<string> | undefined;
  return {
    ...part,
    async pack() {
      packing ??= packText(text);
      return { ...part, packed: await packing };
    },
  };
}

export interface PublishedPart extends Part {
  readonly pack: () => Promise<PackedPart>;
}

export interface HowToCopy {
  /** What the region announces so far: it has a copy of that. Null if it does not answer: it is left alone. */
  readonly known: Announcement | undefined | null;
  /** Also what it has. */
  readonly again: boolean;
  readonly onError: (error: unknown) => void;
}

export async function copyTo(
  board: Pick<AnnouncementBoard, 'writeParts'>,
  parts: readonly PublishedPart[],
  { known, again, onError }: HowToCopy,
): Promise<void> {
  const missing = parts.filter(({ kind, version }) => again || known?.[kind] !== version);
  if (known === null || missing.length === 0) return;
  try {
    const packed = await Promise.all(missing.map(({ pack }) => pack()));
    const fitting = packed.filter((part) => part.packed.length <= MAX_PACKED);
    if (fitting.length > 0) await board.writeParts(fitting, AbortSignal.timeout(COPY_MS));
    if (fitting.length < packed.length) throw new Error('too large for a copy in Redis: only KV has it');
  } catch (error) {
    onError(error);
  }
}
