// Weir's own Worker: a deployment whose requests go to origins.

import { parseWorkerConfig, type WorkerConfig } from '../config/config.ts';
import { type Bindings, serviceOf } from '../config/variables.ts';
import { parseKeyPlaces } from '../http/credentials.ts';
import { createOrigins, type Origins, type OriginsOptions } from '../proxy/origins.ts';
import { createIsolates } from './core.ts';
import { createDeployment } from './deployment.ts';

interface OriginTools extends Pick<OriginsOptions, 'snapshots' | 'now' | 'log'> {
  readonly env: Bindings;
}

export const createOriginsOf = (config: WorkerConfig, { env, ...tools }: OriginTools): Origins =>
  createOrigins({
    ...tools,
    defaultOrigin: config.ORIGIN_URL,
    timeoutMs: config.ORIGIN_TIMEOUT_MS,
    service: (name) => serviceOf(env, name),
    canOverrideHost: config.ENVIRONMENT !== 'development',
    headers: {
      overrides: config.OVERRIDE_HEADERS,
      hidesAccess: config.ADMIN_ACCESS !== undefined,
      keyPlaces: parseKeyPlaces(config.API_KEY_HEADERS),
    },
    // Two Workers with the same counters are the same Weir.
    identity: config.REGIONS.map(({ url }) => url).join(' '),
  });

export const isolateOf = createIsolates((env: Bindings) => {
  const config = parseWorkerConfig(env);
  const deployment = createDeployment(config);
  const { snapshots, now, log } = deployment.services;
  const origins = createOriginsOf(config, { env, snapshots, now, log });
  return { ...deployment, services: { ...deployment.services, origins } };
});
