// Reads the parts that an announcement names: from KV, or, if KV does not have them yet or they are damaged, from the
// Redis of the region that announced them. A version is a digest, and every text is checked against it.

import { unpackText } from '../../core/digest.ts';
import type { Snapshot } from '../../core/matching/snapshot.ts';
import { decodeSnapshot } from '../../core/matching/stored-snapshot.ts';
import { type CallerRevisions, decodeRevisions } from '../../core/ports/callers.ts';
import {
  type Announcement,
  type Published,
  parseAnnouncement,
  type RulesPointer,
} from '../../core/ports/region.ts';

// Published parts in Workers KV. The key of a part contains its version, so a read is never stale. One small key holds
// the announcement, for isolates that cannot read it in Redis.

export const CURRENT_KEY = 'current';
export const partKey = ({ kind, version }: Published): string => `${kind}:${version}`;

export const readCurrent = async (kv: Kv): Promise<Announcement | undefined> =>
  parseAnnouncement(await kv.get(CURRENT_KEY));

/** Undefined if KV does not have this version. */
export async function readPart(kv: Kv, part: Published): Promise<Snapshot | CallerRevisions | undefined> {
  const text = await kv.get(partKey(part));
  return text === null ? undefined : decodePart(part, text);
}

const decodePart = ({ kind, version }: Published, text: string) =>
  kind === 'rules' ? decodeSnapshot(version, text) : decodeRevisions(version, text);

// A deadline for work that takes no signal, such as queries through Drizzle's HTTP driver.

/** Rejects with the signal's reason when the signal aborts. The work itself goes on. */
export async function withDeadline<T>(signal: AbortSignal, work: PromiseLike<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const giveUp = () => late.reject(signal.reason);
  // A signal that has aborted already fires no event.
  if (signal.aborted) giveUp();
  signal.addEventListener('abort', giveUp, { once: true });
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    signal.removeEventListener('abort', giveUp);
  }
}

export type Copies = Pick<RulesPointer, 'readPublished'>;

export interface PartSources {
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
  reading: PartSources,
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

const readFromKv = async (wanted: readonly Published[], kv: Kv): Promise<PublishedContent> =>
  toContent(wanted, await Promise.all(wanted.map((part) => readPart(kv, part))));

async function readCopies(
  wanted: readonly Published[],
  copies: Copies,
  signal: AbortSignal,
): Promise<PublishedContent> {
  const packed = await withDeadline(signal, copies.readPublished(wanted, signal));
  return toContent(wanted, await Promise.all(wanted.map((part, i) => decodeCopy(part, packed[i]))));
}

async function decodeCopy(part: Published, packed: string | undefined) {
  const text = packed === undefined ? undefined : await unpackText(packed);
  return text === undefined ? undefined : decodePart(part, text);
}

const toContent = (
  wanted: readonly Published[],
  read: readonly (Snapshot | CallerRevisions | undefined)[],
): PublishedContent => Object.fromEntries(wanted.map(({ kind }, i) => [kind, read[i]]));

// The part of the Workers KV interface that Weir uses.

export interface Kv {
  get(name: string): Promise<string | null>;
  put(name: string, text: string, options?: KvOptions): Promise<void>;
}

export interface KvOptions {
  expirationTtl?: number;
}
