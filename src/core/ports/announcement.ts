// The announcement in every region's Redis names the versions in force. Isolates compare it, as text, with the
// announcement that they follow.

export interface Announcement {
  /** The number of the publication. A later one has a higher number. */
  readonly sequence: number;
  /** Version of the rules, tiers and lists. */
  readonly rules: string;
  /** Version of the list of callers that have changed lately. */
  readonly callers: string;
}

const FORMAT = /^(\d{1,15})\.([0-9a-f]{16})\.([0-9a-f]{16})$/;

export const formatAnnouncement = ({ sequence, rules, callers }: Announcement): string =>
  `${sequence}.${rules}.${callers}`;

export function parseAnnouncement(text: string | null | undefined): Announcement | undefined {
  const [, sequence, rules, callers] = FORMAT.exec(text ?? '') ?? [];
  if (sequence === undefined || rules === undefined || callers === undefined) return undefined;
  return { sequence: Number(sequence), rules, callers };
}

/** One of the two things that an announcement names. */
export interface Published {
  readonly kind: 'rules' | 'callers';
  readonly version: string;
}

/** See packed-text.ts. */
export interface PackedText extends Published {
  readonly packed: string;
}

export const isSameAnnouncement = (a: Announcement | undefined, b: Announcement): boolean =>
  a !== undefined && formatAnnouncement(a) === formatAnnouncement(b);

/** The one with the highest number. */
export const newestAnnouncement = (
  known: readonly (Announcement | undefined | null)[],
): Announcement | undefined =>
  known.reduce<Announcement | undefined>(
    (newest, one) => (one && one.sequence > (newest?.sequence ?? -1) ? one : newest),
    undefined,
  );

/**
 * The port to a region's announcement, and to a copy of the parts it names, because KV may not have them everywhere
 * yet.
 */
export interface AnnouncementBoard {
  /** The text of the announcement, or undefined if there is none. */
  read(signal: AbortSignal): Promise<string | undefined>;
  /** An older announcement never replaces a newer one. */
  write(announcement: Announcement, signal: AbortSignal): Promise<void>;
  /** The copies, packed; undefined where there is none. */
  readPublished(parts: readonly Published[], signal: AbortSignal): Promise<readonly (string | undefined)[]>;
  writeParts(parts: readonly PackedText[], signal: AbortSignal): Promise<void>;
}
