// Checks for other Workers of the account, through a service binding with `entrypoint = "Weir"`: no token and no HTTP.
import { WorkerEntrypoint } from 'cloudflare:workers';
import type { CheckAnswer, CheckCall, SettleAnswer } from './checks/call.ts';
import type { Bindings } from './config/variables.ts';
import { isolateOf } from './wiring/isolate.ts';

export class Weir extends WorkerEntrypoint<Bindings> {
  /** Throws if the call is invalid; the error says why. A denial is an answer, not an error. */
  async check(call: CheckCall): Promise<CheckAnswer> {
    const { checks, asked } = await this.#checks();
    return checks.check(call, asked);
  }

  /** Gives back all charges of a check, once. */
  async refund(id: string): Promise<void> {
    const { checks, asked } = await this.#checks();
    await checks.refund({ id }, asked);
  }

  /** Brings all charges of a check to the real cost, once. */
  async settle(id: string, cost: number): Promise<SettleAnswer> {
    const { checks, asked } = await this.#checks();
    return checks.settle({ id, cost }, asked);
  }

  async #checks() {
    const { services } = isolateOf(this.env);
    const { serviceChecks } = await import('./gateway/internal-handlers.ts');
    const regions = services.regionsOf() ?? services.regions;
    const afterResponse = (work: Promise<unknown>) => this.ctx.waitUntil(work);
    return { checks: serviceChecks(services), asked: { regions, afterResponse } };
  }
}
