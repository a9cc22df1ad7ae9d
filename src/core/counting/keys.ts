// Makes all keys of Redis. Two subjects never share a key. Keys are short: a digest replaces a long or unusual subject.
// All keys of a subject have the same hash tag, so that a cluster keeps them in one slot.

import { digest, toBase64Url } from '../digest.ts';
import type { Published } from '../ports/region.ts';
import { type AlgorithmId, traitsOf } from './algorithms/registry.ts';

/** '=', '#' and '!' start the tags of different kinds of subjects, so a plain one never collides with a digest. */
const PLAIN = /^[A-Za-z0-9.:_@/-]{1,64}$/;
/** 48 bits are enough: an id must be unique only within a key, among the rules of one deployment. */
const COUNTER_ID_LENGTH = 8;

/**
 * The key of a subject's counters; counters of a `group` have a key of their own. Returns a promise only if the subject
 * needs a digest; most do not.
 */
export function subjectKey(scope: string, subject: string, group = ''): string | Promise<string> {
  if (PLAIN.test(subject)) return keyOf(scope, `=${subject}`, group);
  // UTF-8 has no half of a surrogate pair and would replace each by the same character. JSON escapes it.
  const [mark, text] = subject.isWellFormed() ? ['#', subject] : ['!', JSON.stringify(subject)];
  return digest('SHA-256', text).then((bytes) => keyOf(scope, `${mark}${toBase64Url(bytes)}`, group));
}

const keyOf = (scope: string, tag: string, group: string) =>
  group === '' ? `weir:{${scope}:${tag}}` : `weir:{${scope}:${tag}}:${group}`;

/** The key of a region's announcement. */
export const ANNOUNCEMENT_KEY = 'weir:announcement';

/** The key of a region's copy of a published part. Both parts have one hash tag, so a cluster can read them at once. */
export const publishedKey = ({ kind, version }: Published): string => `weir:{published}:${kind}:${version}`;

/** The key of a region's census. */
export const CENSUS_KEY = 'weir:isolates';

/** The key of a region's metric sums. The last report of each isolate is beside it. */
export const METRICS_KEY = 'weir:{metrics}';
export const reportKey = (isolateId: string): string => `${METRICS_KEY}:${isolateId}`;

/** The key that probes count in. No scope has this name, so no subject shares it. */
export const PROBE_KEY = 'weir:{probe}';

/** This many rules share a key. With at most five limits each, that is 320 counters; the script keeps 500. */
const RULES_IN_A_GROUP = 64;

export interface Grouped {
  readonly algorithm: AlgorithmId;
  readonly counterId: string;
  readonly ordinal?: number | undefined;
  /** The route or method that has a counter of its own. */
  readonly variant?: string | undefined;
}

/**
 * The group of a counter; '' for the key that most counters of a subject share. It depends on the rule alone, so adding
 * or removing a rule never moves the counters of another.
 */
export function groupOf({ algorithm, counterId, ordinal = 0, variant = '' }: Grouped): string {
  // A large state has a key of its own, so that the subject's other counters stay cheap to rewrite.
  if (traitsOf(algorithm).mostUnits !== undefined) return counterId;
  const number = Math.floor(ordinal / RULES_IN_A_GROUP);
  const group = number === 0 ? '' : `group${number}`;
  // One rule can have a counter for each of many routes and methods. Each route and method has a key, so that a key
  // never holds more than one of them. No id of a counter has a dot.
  return variant === '' ? group : `${group}.${variant}`;
}

/**
 * The id of a counter within its key. If the algorithm, window length, calendar or number of buckets changes, counting
 * starts anew. If only the limit changes, counting goes on.
 */
export function counterId(
  ruleId: string,
  algorithm: AlgorithmId,
  windows: number | string,
  extra = 0,
): Promise<string> {
  const buckets = traitsOf(algorithm).extra === 'buckets' ? extra : 0;
  return short(`${ruleId}\n${algorithm}\n${windows}\n${buckets}`, COUNTER_ID_LENGTH);
}

/** The part of a key that decides its slot in a cluster. */
export const hashTagOf = (key: string): string => key.slice(key.indexOf('{') + 1, key.indexOf('}'));

async function short(text: string, length: number): Promise<string> {
  return toBase64Url(await digest('SHA-256', text)).slice(0, length);
}

// A short hash of a text, the same in every isolate. Not for secrets: anybody can find a text with a given hash.

/**
 * 32 bits: FNV-1a over the UTF-16 units, then the finalizer of MurmurHash3, without which similar texts stay similar.
 */
export function hash(text: string, seed = 0x811c9dc5): number {
  let state = seed;
  for (let i = 0; i < text.length; i++) state = Math.imul(state ^ text.charCodeAt(i), 0x01000193);
  state = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
  state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35);
  return (state ^ (state >>> 16)) >>> 0;
}
