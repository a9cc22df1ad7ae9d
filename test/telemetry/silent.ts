// Telemetry that does nothing, for tests of other parts.
import type { Telemetry } from '../../src/core/ports/telemetry.ts';
import type { Log } from '../../src/http/log.ts';

export const SILENT: Telemetry = {
  clockMs: () => 0,
  decided: () => {},
  checked: () => {},
  corrected: () => {},
  answered: () => {},
  flush: () => {},
};

export const SILENT_LOG: Log = {
  degraded: () => {},
  shadow: () => {},
  denied: () => {},
  error: () => {},
  breaker: () => {},
  script: () => {},
  bug: () => {},
};
