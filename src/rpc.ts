// Checks for other Workers of the account, through a service binding with `entrypoint = "Weir"`: no token and no HTTP.
import { WorkerEntrypoint } from 'cloudflare:workers';
import type { CheckAnswer, CheckCall } from './checks/messages.ts';
import type { Bindings } from './config/variables.ts';
import { isolateOf } from './wiring/isolate.ts';

export class Weir extends WorkerEntrypoint<Bindings> {
  /** Throws if the call is invalid; the error says why. A denial is an answer, not an error. */
  async check(call: CheckCall): Promise<CheckAnswer> {
    const { checks, asked, readCall } = await this.#checks();
    return checks.check(readCall(call), asked);
  }

  /** Gives back all charges of a check, once. */
  async refund(id: string): Promise<void> {
    const { checks, asked, readRefunding } = await this.#checks();
    await checks.refund(readRefunding({ id }).id, asked);
  }

  /** Brings all charges of a check to the real cost, once. */
  async settle(id: string, cost: number): Promise<void> {
    const { checks, asked, readSettling } = await this.#checks();
    const read = readSettling({ id, cost });
    await checks.settle(read.id, read.cost, asked);
  }

  async #checks() {
    const { services } = isolateOf(this.env);
    const { serviceChecks, ...readers } = await import('./gateway/internal-handlers.ts');
    const regions = services.regionsOf() ?? services.regions;
    const afterResponse = (work: Promise<unknown>) => this.ctx.waitUntil(work);
    return { ...readers, checks: serviceChecks(services), asked: { regions, afterResponse } };
  }
}
