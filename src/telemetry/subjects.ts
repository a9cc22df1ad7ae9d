// Stores subjects in plain text or as keyed hashes. With a hash, a subject is still one row, but nobody without the key
// can find out its address or user, not even by trying all of them.
import { createSigner, toBase64Url } from '../core/digest.ts';
import { OTHER } from '../core/telemetry/metrics.ts';
import type { Denial, Usage } from '../core/telemetry/records.ts';

/** Long enough that no two subjects of a deployment have the same hash. */
const LENGTH = 22;

export interface Subjects {
  /** The keyed hash of a subject, even if subjects are stored in plain text. */
  hash(subject: string): Promise<string>;
  /** The subject as it is stored: in plain text, or as a hash. */
  stored(scope: Denial['scope'], subject: string): Promise<string>;
  /** Rows with their subjects as they are stored. */
  subjectsOf<Row extends Pick<Denial, 'scope' | 'subject'>>(rows: readonly Row[]): Promise<Row[]>;
  usage(rows: readonly Usage[]): Promise<Usage[]>;
}

export interface SubjectsOptions {
  readonly isHashed: boolean;
  /** Secret. */
  readonly key: string;
}

/** The operator chooses the ids of keys and tenants, so they name no person. */
const isPersonal = (scope: Denial['scope']) => scope === 'ip' || scope === 'user';

export function createSubjects({ isHashed, key }: SubjectsOptions): Subjects {
  const sign = createSigner(`weir-subjects ${key}`);
  const hash = async (subject: string) => `h:${toBase64Url(await sign(subject)).slice(0, LENGTH)}`;
  const stored = async (scope: Denial['scope'], subject: string) =>
    isHashed && isPersonal(scope) && subject !== OTHER && subject !== '' ? hash(subject) : subject;

  return {
    hash,
    stored,
    subjectsOf: (rows) =>
      Promise.all(rows.map(async (row) => ({ ...row, subject: await stored(row.scope, row.subject) }))),
    usage: (rows) =>
      Promise.all(rows.map(async (row) => ({ ...row, userId: await stored('user', row.userId) }))),
  };
}
