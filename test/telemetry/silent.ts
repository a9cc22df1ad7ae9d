// Telemetry that does nothing, for tests of other parts.
import type { Telemetry } from '../../src/core/ports/telemetry.ts';

export const SILENT: Telemetry = {
  clockMs: () => 0,
  decided: () => {},
  answered: () => {},
  handOver: () => {},
};
