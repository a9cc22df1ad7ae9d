// For tests in which no time-out is the subject: nothing is given up, however busy the machine is.
import { afterAll, beforeAll, type MockInstance, vi } from 'vitest';

export const PATIENT_MS = 100_000;
const { timeout } = AbortSignal;

/** In a file, or in a `describe`: signals that would abort after a while abort so late that nobody sees it. */
export function usePatience(): void {
  let spy: MockInstance<typeof AbortSignal.timeout> | undefined;
  beforeAll(() => {
    spy = vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => timeout(Math.max(ms, PATIENT_MS)));
  });
  afterAll(() => spy?.mockRestore());
}
