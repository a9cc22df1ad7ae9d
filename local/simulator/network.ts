// The network between isolates and regions. A call takes time; it may be lost, or arrive when nobody waits for it any
// more. The fate of a call depends only on the seed and the call, so leaving out other calls does not change it.
import { CounterStoreError } from '../../src/core/ports/region.ts';
import { createRandom } from '../random.ts';
import type { RegionServer } from './region-server.ts';
import { endOf, type VirtualTime } from './virtual-time.ts';

export interface NetworkSettings {
  readonly seed: number;
  /** One-way times from the place of an isolate to a region, both by number. */
  readonly oneWayMs: readonly (readonly number[])[];
  /** How much longer a one-way trip may take, relative to its usual time. */
  readonly jitter: number;
  /** The fraction of all calls whose request or answer is lost. */
  readonly lossRate: number;
  /** The fraction of all calls that arrive seconds later. */
  readonly lateRate: number;
  /** The fraction of all calls whose client has left, so that nothing waits for the answer. */
  readonly leaveRate: number;
}

/** The sender of a call. An isolate that has died hears no answer. */
export interface Caller {
  readonly place: number;
  readonly number: number;
  isAlive: boolean;
}

export interface Call<T> {
  readonly caller: Caller;
  readonly region: number;
  /** The subject, or another text that distinguishes calls. */
  readonly about: string;
  readonly signal: AbortSignal;
  readonly execute: (server: RegionServer) => T;
  readonly tell?: ((line: string) => void) | undefined;
  /** The caller has given up on the call. */
  readonly onGivenUp?: (() => void) | undefined;
}

export interface Cut {
  readonly place: number;
  readonly region: number;
  readonly untilMs: number;
}

export interface Network {
  call<T>(call: Call<T>): Promise<T>;
  /** No call passes between the place and the region until `untilMs`. */
  cut(cut: Cut): void;
}

const LATEST_MS = 20_000;

export function createNetwork(
  { seed, oneWayMs, jitter, lossRate, lateRate, leaveRate }: NetworkSettings,
  servers: readonly RegionServer[],
  time: VirtualTime,
): Network {
  let cuts: Cut[] = [];
  let lastMs = 0;
  let sameMoment = 0;

  const isCut = (place: number, region: number) => {
    if (cuts.length === 0) return false;
    cuts = cuts.filter(({ untilMs }) => untilMs > time.now());
    return cuts.some((cut) => cut.place === place && cut.region === region);
  };

  const randomFor = ({ caller, region, about }: Call<unknown>) => {
    sameMoment = time.now() === lastMs ? sameMoment + 1 : 0;
    lastMs = time.now();
    let hash =
      seed ^ Math.imul(lastMs % 2 ** 31, 0x9e3779b1) ^ (caller.number * 64 + region * 8 + sameMoment);
    for (let i = 0; i < about.length; i += 1) hash = Math.imul(hash ^ about.charCodeAt(i), 0x01000193);
    return createRandom(hash);
  };

  return {
    cut: (cut) => void cuts.push(cut),

    call<T>(call: Call<T>): Promise<T> {
      const { caller, region, signal, execute, tell, onGivenUp } = call;
      const server = servers[region] as RegionServer;
      const random = randomFor(call);
      const wayMs = () => (oneWayMs[caller.place]?.[region] ?? 1) * (1 + random() * jitter);
      const isLate = random() < lateRate;
      const toMs = Math.round(wayMs() + (isLate ? random() * LATEST_MS : 0));
      const backMs = Math.round(wayMs());
      const isLost = random() < lossRate || isCut(caller.place, region);
      const isAnswerLost = isLost && random() < 0.5;
      const isLeft = random() < leaveRate;
      const endsAtMs = endOf(signal);

      return new Promise<T>((resolve, reject) => {
        const giveUp = () => {
          if (!caller.isAlive || isLeft) return;
          tell?.(`gives up on ${server.name}`);
          onGivenUp?.();
          reject(new CounterStoreError('timeout', 'x'));
        };
        const giveUpLater = () => void time.after(endsAtMs - time.now(), giveUp);
        const arrive = () => {
          if (server.hangs.untilMs > time.now()) {
            if (!isLost) giveUpLater();
            if (server.hangs.areKept) time.after(server.hangs.untilMs - time.now(), runThere);
            return;
          }
          runThere();
        };
        const runThere = () => {
          let answer: T;
          try {
            answer = execute(server);
          } catch (error) {
            // A bug in the code under test. The caller gets the error.
            return void time.after(backMs, () => reject(error));
          }
          if (!isAnswerLost) time.after(backMs, () => caller.isAlive && !isLeft && resolve(answer));
          else tell?.(`the answer of ${server.name} is lost`);
        };
        if (endsAtMs <= time.now()) return giveUp();
        if (isLost || time.now() + toMs + backMs > endsAtMs) giveUpLater();
        if (!isLost || isAnswerLost) time.after(toMs, arrive);
        else tell?.(`a call to ${server.name} is lost`);
      });
    },
  };
}
