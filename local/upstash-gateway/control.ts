// The gateway's own endpoints under /_gateway: read the counters, set faults, clear them. No token, because they are on
// loopback only.

import type { GatewayStats } from './billing.ts';
import type { GatewayFaults } from './fault-switch.ts';
import { BadFaultError, parseFaults } from './faults.ts';
import { type Answer, renderError } from './replies.ts';

export interface Control {
  stats(): Promise<GatewayStats>;
  faults: GatewayFaults;
}

/** `afterwards` runs after the answer, for changes that would cut it off. */
export type ControlAnswer = Answer & { afterwards?: () => Promise<void> };

export async function answerControl(
  request: { method: string; url: string; body: Buffer },
  control: Control,
): Promise<ControlAnswer> {
  const { faults } = control;
  switch (`${request.method} ${request.url.split('?')[0]}`) {
    case 'GET /_gateway/stats':
      return json(await control.stats());
    case 'GET /_gateway/faults':
      return json(faults.get());
    case 'PUT /_gateway/faults':
      return putFaults(request.body, faults);
    case 'DELETE /_gateway/faults':
      await faults.clear();
      return json(faults.get());
    case 'POST /_gateway/flush-scripts':
      await faults.flushScripts();
      return json({ flushed: true });
    default:
      return renderError(404, `no ${request.method} ${request.url} here`);
  }
}

async function putFaults(body: Buffer, faults: GatewayFaults): Promise<ControlAnswer> {
  try {
    const wanted = parseFaults(parseJson(body));
    if (wanted.refuse) return { ...json(wanted), afterwards: () => faults.set(wanted) };
    await faults.set(wanted);
    return json(faults.get());
  } catch (error) {
    if (error instanceof BadFaultError) return renderError(400, error.message);
    throw error;
  }
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    throw new BadFaultError('the body is not JSON');
  }
}

function json(value: unknown): Answer {
  return { status: 200, body: JSON.stringify(value) };
}
