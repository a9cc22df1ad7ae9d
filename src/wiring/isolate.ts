// Weir's own Worker: a deployment whose requests go to origins.

import { parseWorkerConfig, type WorkerConfig } from '../config/config.ts';
import type { Bindings } from '../config/variables.ts';
import { createOrigins, type Origins, type OriginsOptions } from '../proxy/origins.ts';
import { createIsolates, weirIdOf } from './core.ts';
import { createDeployment, joinedHeadersOf } from './deployment.ts';

export const createOriginsOf = (
  config: WorkerConfig,
  tools: Pick<OriginsOptions, 'snapshots' | 'now' | 'log'>,
): Origins =>
  createOrigins({
    ...tools,
    defaultOrigin: config.ORIGIN_URL,
    timeoutMs: config.ORIGIN_TIMEOUT_MS,
    service: config.service,
    canOverrideHost: config.ENVIRONMENT !== 'development',
    headers: {
      overrides: config.OVERRIDE_HEADERS,
      hidesAccess: config.ADMIN_ACCESS !== undefined,
      joined: joinedHeadersOf(config),
    },
    identity: weirIdOf(config),
  });

export const isolateOf = createIsolates((env: Bindings) => {
  const config = parseWorkerConfig(env);
  const deployment = createDeployment(config);
  const { snapshots, now, log } = deployment.services;
  const origins = createOriginsOf(config, { snapshots, now, log });
  return { ...deployment, services: { ...deployment.services, origins } };
});
