// Everything that can happen to the Redis of a region, by name. Tests and benches share this table.
import { setTimeout as sleep } from 'node:timers/promises';
import { makeReadOnlyReplica, refuseMemory, takeWrites } from './redis-modes.ts';
import type { LocalRegion } from './regions.ts';
import type { FaultRequest } from './upstash-gateway/faults.ts';
import { RedisDownError } from './upstash-gateway/redis-link.ts';

export type RegionFaultName =
  | 'redis-killed'
  | 'redis-restarted-empty'
  | 'redis-frozen'
  | 'slow'
  | 'slow-at-random'
  | 'connection-refused'
  | 'reset-mid-reply'
  | 'status-401'
  | 'status-429'
  | 'status-500'
  | 'garbage'
  | 'wrong-shape'
  | 'scripts-flushed'
  | 'out-of-memory'
  | 'read-only-replica'
  | 'hang';

export interface RegionFault {
  readonly name: RegionFaultName;
  /** Whether the fault is over as soon as it has begun. It then leaves a healthy region that has lost something. */
  readonly isInstant: boolean;
  begin(region: LocalRegion): Promise<void>;
  /** Makes the region healthy again, whatever was wrong with it. */
  end(region: LocalRegion): Promise<void>;
}

export interface RegionFaultOptions {
  /** The delay that `slow` adds to every answer. `slow-at-random` adds up to twice as much. */
  readonly slowMs: number;
}

const INSTANTS: readonly RegionFaultName[] = ['redis-restarted-empty', 'scripts-flushed'];
const HEAL_MS = 10_000;

export function regionFaults({ slowMs }: RegionFaultOptions): RegionFault[] {
  const begin: Record<RegionFaultName, RegionFault['begin']> = {
    'redis-killed': ({ redis }) => redis.kill(),
    'redis-restarted-empty': restart,
    'redis-frozen': async ({ redis }) => redis.freeze(),
    slow: atGateway({ latencyMs: slowMs }),
    'slow-at-random': atGateway({ latencyMs: { min: 0, max: 2 * slowMs } }),
    'connection-refused': atGateway({ refuse: true }),
    'reset-mid-reply': atGateway({ resetMidReply: true }),
    'status-401': atGateway({ status: 401 }),
    'status-429': atGateway({ status: 429 }),
    'status-500': atGateway({ status: 500 }),
    garbage: atGateway({ garbage: true }),
    'wrong-shape': atGateway({ wrongShape: true }),
    'scripts-flushed': ({ gateway }) => gateway.faults.flushScripts(),
    'out-of-memory': ({ redis }) => refuseMemory(redis),
    'read-only-replica': ({ redis }) => makeReadOnlyReplica(redis),
    hang: atGateway({ hang: true }),
  };
  return (Object.keys(begin) as RegionFaultName[]).map((name) => ({
    name,
    isInstant: INSTANTS.includes(name),
    begin: begin[name],
    end: healRegion,
  }));
}

export function regionFault(name: RegionFaultName, options: RegionFaultOptions): RegionFault {
  return regionFaults(options).find((fault) => fault.name === name) as RegionFault;
}

/** Ends any fault of the region. Resolves when its gateway gets answers from its Redis again. */
export async function healRegion(region: LocalRegion): Promise<void> {
  const { redis, gateway } = region;
  redis.thaw();
  await redis.start();
  await takeWrites(redis);
  await gateway.faults.clear();
  await untilConnected(region);
}

const atGateway =
  (faults: FaultRequest): RegionFault['begin'] =>
  ({ gateway }) =>
    gateway.faults.set(faults);

async function restart(region: LocalRegion): Promise<void> {
  await region.redis.kill();
  await region.redis.start();
  await untilConnected(region);
}

/** The gateway reconnects by itself, a moment after its Redis is back. */
async function untilConnected({ name, gateway }: LocalRegion): Promise<void> {
  for (const tooLateMs = Date.now() + HEAL_MS; ; await sleep(5)) {
    try {
      // Asks Redis through the gateway's own connection. This request is neither billed nor counted.
      await gateway.stats();
      return;
    } catch (error) {
      if (!(error instanceof RedisDownError)) throw error;
      if (Date.now() > tooLateMs) throw new Error(`region ${name} does not come back`, { cause: error });
    }
  }
}
