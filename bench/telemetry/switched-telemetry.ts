// Replaces src/telemetry/telemetry.ts: does the same, or nothing while turned off.
import {
  createTelemetry as create,
  type IsolateTelemetry,
  type TelemetryOptions,
} from '../../src/telemetry/telemetry.ts';
import { telling } from './switch.ts';

export function createTelemetry(options: TelemetryOptions): IsolateTelemetry {
  const telemetry = create(options);
  return {
    ...telemetry,
    clockMs: () => (telling.isOn ? telemetry.clockMs() : 0),
    decided(request) {
      if (telling.isOn) telemetry.decided(request);
    },
    answered(request) {
      if (telling.isOn) telemetry.answered(request);
    },
    flush(regions, afterResponse) {
      if (telling.isOn) telemetry.flush(regions, afterResponse);
    },
  };
}
