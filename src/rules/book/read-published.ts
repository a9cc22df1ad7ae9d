// Reads the parts that an announcement names: from KV, or, if KV does not have them yet or they are damaged, from the
// Redis of the region that announced them. A version is a digest, and every text is checked against it.

import type { Snapshot } from '../../core/matching/snapshot.ts';
import { decodeSnapshot } from '../../core/matching/stored-snapshot.ts';
import { unpackText } from '../../core/packed-text.ts';
import type { AnnouncementBoard, Published } from '../../core/ports/announcement.ts';
import { type CallerRevisions, decodeRevisions } from './caller-revisions.ts';
import type { Kv } from './kv.ts';
import { readCallers, readRules } from './snapshot-kv.ts';
import { withDeadline } from './with-deadline.ts';

export type Copies = Pick<AnnouncementBoard, 'readPublished'>;

export interface Reading {
  readonly kv: Kv;
  /** The copies in the region that announced the parts; undefined if no region did. */
  readonly copies: Copies | undefined;
  /** When it aborts, the copies are read instead of KV. */
  readonly kvSignal: AbortSignal;
  /** For the whole read. */
  readonly signal: AbortSignal;
  readonly onError: (error: unknown) => void;
}

export interface PublishedContent {
  readonly rules?: Snapshot | undefined;
  readonly callers?: CallerRevisions | undefined;
}

/** Leaves out parts that neither KV nor Redis has. Throws if KV fails or is too late, and the copies lack a part. */
export async function readPublished(
  wanted: readonly Published[],
  reading: Reading,
): Promise<PublishedContent> {
  const { copies, kvSignal, signal, onError } = reading;
  const fromKv = readFromKv(wanted, reading.kv);
  const [kept] = await Promise.allSettled([withDeadline(kvSignal, fromKv)]);
  const inKv: PublishedContent = kept.status === 'fulfilled' ? kept.value : {};
  const missing = wanted.filter(({ kind }) => inKv[kind] === undefined);
  const copied = missing.length > 0 && copies ? await readCopies(missing, copies, signal).catch(onError) : {};
  const parts: PublishedContent = { ...inKv, ...copied };
  if (kept.status === 'fulfilled') return parts;
  if (wanted.some(({ kind }) => parts[kind] === undefined)) return withDeadline(signal, fromKv);
  onError(kept.reason);
  return parts;
}

const readFromKv = async (wanted: readonly Published[], kv: Kv): Promise<PublishedContent> => {
  const read = ({ kind, version }: Published) =>
    kind === 'rules' ? readRules(kv, version) : readCallers(kv, version);
  return toContent(wanted, await Promise.all(wanted.map(read)));
};

async function readCopies(
  wanted: readonly Published[],
  copies: Copies,
  signal: AbortSignal,
): Promise<PublishedContent> {
  const packed = await withDeadline(signal, copies.readPublished(wanted, signal));
  return toContent(wanted, await Promise.all(wanted.map((part, i) => decodeCopy(part, packed[i]))));
}

async function decodeCopy({ kind, version }: Published, packed: string | undefined) {
  const text = packed === undefined ? undefined : await unpackText(packed);
  if (text === undefined) return undefined;
  return kind === 'rules' ? decodeSnapshot(version, text) : decodeRevisions(version, text);
}

const toContent = (
  wanted: readonly Published[],
  read: readonly (Snapshot | CallerRevisions | undefined)[],
): PublishedContent => Object.fromEntries(wanted.map(({ kind }, i) => [kind, read[i]]));
