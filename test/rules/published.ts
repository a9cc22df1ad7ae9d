// Rules and callers as a publication would have them, for tests that put them into KV or a region by themselves.

import { publishedKey } from '../../src/core/counting/keys.ts';
import type { Snapshot } from '../../src/core/matching/snapshot.ts';
import { encodeSnapshot, versionOf } from '../../src/core/matching/stored-snapshot.ts';
import type { CallerRevisions } from '../../src/core/ports/callers.ts';
import type { Announcement } from '../../src/core/ports/region.ts';
import { type Kv, readPart } from '../../src/rules/edge/published.ts';
import { publishedText, writePart } from '../../src/rules/publishing/copies.ts';
import { createRule } from './small-rules.ts';

/** Rules with these ids, and one changed caller. */
export async function createPublished(sequence: number, ids: readonly string[]) {
  const texts = {
    rules: encodeSnapshot({ rules: ids.map(createRule), tiers: [], lists: [] }),
    callers: JSON.stringify({ epoch: '0', revisions: { 'key:k': String(sequence) } }),
  };
  const [rules, callers] = [await versionOf(texts.rules), await versionOf(texts.callers)];
  const announcement: Announcement = { sequence, rules, callers };
  const parts = [
    publishedText({ kind: 'rules', version: rules }, texts.rules),
    publishedText({ kind: 'callers', version: callers }, texts.callers),
  ];
  return { announcement, texts, parts };
}
export type Published = Awaited<ReturnType<typeof createPublished>>;

export const keyOf = ({ announcement }: Published, kind: 'rules' | 'callers') =>
  publishedKey({ kind, version: announcement[kind] });

/** Parts in KV, by their versions. */
export const readRules = async (kv: Kv, version: string) =>
  (await readPart(kv, { kind: 'rules', version })) as Snapshot | undefined;
export const readCallers = async (kv: Kv, version: string) =>
  (await readPart(kv, { kind: 'callers', version })) as CallerRevisions | undefined;
export const writeRules = (kv: Kv, version: string, text: string) =>
  writePart(kv, publishedText({ kind: 'rules', version }, text));
export const writeCallers = (kv: Kv, version: string, text: string) =>
  writePart(kv, publishedText({ kind: 'callers', version }, text));
