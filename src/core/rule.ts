// What a rule says, once it has been validated. Everything downstream may trust these fields.

import type { AlgorithmId } from './algorithms/registry.ts';

export const SCOPES = ['global', 'ip'] as const;
export type Scope = (typeof SCOPES)[number];

export interface Rule {
  readonly id: string;
  readonly name: string;
  /** An exact path (`/login`), a prefix (`/api/*`) or everything (`/*`). */
  readonly resource: string;
  readonly scope: Scope;
  readonly algorithm: AlgorithmId;
  readonly limit: number;
  readonly windowSeconds: number;
  /** Lower comes first. */
  readonly priority: number;
}
