// The limits of the faults bench, for Weir and for its peer.

/** Twice the default: a quarter of it is enough for a healthy region on a machine that everything shares. */
export const DEADLINE_MS = 500;

/** During an outage, of each subject that is measured. */
export const OUTAGE_LIMIT = 6;
/** Nobody reaches it. */
export const ROOMY_LIMIT = 100_000;
/** Of the subject that sends too much, in each window. */
export const HOT_LIMIT = 6;
export const HOT_WINDOW_MS = 1_000;

export const ALGORITHMS = ['fixed-window', 'sliding-window-counter', 'token-bucket'] as const;
export type HotAlgorithm = (typeof ALGORITHMS)[number];

/** Longer than any run: what an outage admits is admitted in one window. */
const LONG_SECONDS = 366 * 86_400;

/** As the admin route takes them. */
export const RULES = [
  { ...longRule('roomy'), limit: ROOMY_LIMIT },
  { ...longRule('open'), onUnavailable: 'open' },
  { ...longRule('local'), onUnavailable: 'local' },
  ...ALGORITHMS.map((algorithm) => ({
    ...longRule(algorithm),
    algorithm,
    limit: HOT_LIMIT,
    windowSeconds: HOT_WINDOW_MS / 1_000,
  })),
];

function longRule(name: string) {
  return {
    name,
    resource: `/${name}`,
    scope: 'ip',
    algorithm: 'fixed-window',
    limit: OUTAGE_LIMIT,
    windowSeconds: LONG_SECONDS,
  };
}
