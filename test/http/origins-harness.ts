// Origins of a test: routes in force, bindings, and a clock.

import type { ServiceBinding } from '../../src/core/matching/origin-routes.ts';
import { type OriginRoute, ROUTE_DEFAULTS } from '../../src/core/matching/origin-routes.ts';
import { compileSnapshot } from '../../src/core/matching/snapshot.ts';
import { createOrigins } from '../../src/proxy/origins.ts';
import { SILENT_LOG } from '../telemetry/silent.ts';

export const route = (fields: Partial<OriginRoute> & Pick<OriginRoute, 'origin'>): OriginRoute => ({
  ...ROUTE_DEFAULTS,
  id: fields.name ?? fields.origin,
  name: fields.origin,
  ...fields,
});

export interface OriginsOfTest {
  readonly defaultOrigin?: string;
  readonly routes?: readonly OriginRoute[];
  readonly services?: Readonly<Record<string, ServiceBinding>>;
  readonly identity?: string;
  readonly now?: () => number;
}

export function openOrigins({ routes = [], services = {}, ...options }: OriginsOfTest = {}) {
  const snapshot = compileSnapshot('v1', { rules: [], tiers: [], lists: [], routes });
  return createOrigins({
    defaultOrigin: 'https://default.example.com',
    timeoutMs: 10_000,
    canOverrideHost: true,
    service: (name) => services[name],
    snapshots: { current: () => snapshot },
    headers: { overrides: 'drop', hidesAccess: false },
    identity: 'one',
    now: () => 0,
    log: SILENT_LOG,
    ...options,
  });
}
