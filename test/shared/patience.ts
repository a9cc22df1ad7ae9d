// For tests that are not about time-outs: nothing is given up, however busy the machine is.
import { afterAll, beforeAll, type MockInstance, vi } from 'vitest';

export const PATIENT_MS = 100_000;
const { timeout } = AbortSignal;

/** For a file or a `describe`: signals abort so late that no test sees it. */
export function usePatience(): void {
  let spy: MockInstance<typeof AbortSignal.timeout> | undefined;
  beforeAll(() => {
    spy = vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => timeout(Math.max(ms, PATIENT_MS)));
  });
  afterAll(() => spy?.mockRestore());
}
