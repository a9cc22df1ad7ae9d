// The only place where keys of Redis are made. Whatever a subject contains, two of them never share a key, and
// the key is short: what is long or unusual is replaced by its digest. All keys of one subject have one hash
// tag, so that a cluster keeps them together.

import { digest, toBase64Url } from '../digest.ts';
import type { Part } from '../ports/announcement.ts';
import { type AlgorithmId, traitsOf } from './algorithms/registry.ts';

/** '=' and '#' cannot both start a tag for the same subject, so a plain subject never collides with a digest. */
const PLAIN = /^[A-Za-z0-9.:_@/-]{1,64}$/;
/** 48 bits: within one key, where ids meet only those of the same deployment's rules. */
const COUNTER_ID_LENGTH = 8;

/**
 * Where the counters of a subject are; `group` keeps some of them apart from the others. At once for plain subjects,
 * which most are: only a digest has to be waited for.
 */
export function subjectKey(scope: string, subject: string, group = ''): string | Promise<string> {
  const keyOf = (tag: string) =>
    group === '' ? `weir:{${scope}:${tag}}` : `weir:{${scope}:${tag}}:${group}`;
  if (PLAIN.test(subject)) return keyOf(`=${subject}`);
  return digest('SHA-256', subject).then((bytes) => keyOf(`#${toBase64Url(bytes)}`));
}

/** Where the version of the rules in force is announced. */
export const ANNOUNCEMENT_KEY = 'weir:announcement';

/** Where the copy of a part is that an announcement names. One hash tag: a cluster can read both parts at once. */
export const partKey = ({ kind, version }: Part): string => `weir:{published}:${kind}:${version}`;

/** Where the isolates of a region count themselves in. */
export const CENSUS_KEY = 'weir:isolates';

/** Where the isolates of a region add up their metrics, and what each of them has told last. */
export const METRICS_KEY = 'weir:{metrics}';
export const reportKey = (isolateId: string): string => `${METRICS_KEY}:${isolateId}`;

/** Where probes count: no scope has this name, so no subject shares it. */
export const PROBE_KEY = 'weir:{probe}';

/** So many rules share a key: few enough that no subject ever has too many counters in one. */
const RULES_IN_A_GROUP = 64;

/**
 * The group of a counter: '' for the one key that most counters of a subject share. It depends on the rule alone:
 * a rule that comes or goes never moves the counters of another.
 */
export function groupOf(algorithm: AlgorithmId, counterId: string, ordinal = 0): string {
  // A large state is kept apart, so that the other counters of the subject stay cheap to rewrite.
  if (traitsOf(algorithm).mostUnits !== undefined) return counterId;
  const group = Math.floor(ordinal / RULES_IN_A_GROUP);
  return group === 0 ? '' : `group${group}`;
}

/**
 * The id of a counter within its key. Another algorithm, another length of its windows in ms or another calendar starts
 * from nothing; another limit does not.
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

/** What two keys must share to be in one slot of a cluster. */
export const hashTagOf = (key: string): string => key.slice(key.indexOf('{') + 1, key.indexOf('}'));

async function short(text: string, length: number): Promise<string> {
  return toBase64Url(await digest('SHA-256', text)).slice(0, length);
}
