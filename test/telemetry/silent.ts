// Telemetry that hears everything and does nothing, for tests of something else.
import type { Telemetry } from '../../src/core/ports/telemetry.ts';

export const SILENT: Telemetry = {
  clockMs: () => 0,
  decided: () => {},
  answered: () => {},
  handOver: () => {},
};
