// The limits of the faults bench, for Weir and for its peer.

/** Twice the default: a quarter of it is enough for a healthy region on a shared machine. */
export const DEADLINE_MS = 500;

/** The limit of each measured subject during an outage. */
export const OUTAGE_LIMIT = 6;
/** No subject reaches it. */
export const ROOMY_LIMIT = 100_000;
/** The limit in each window, for the subject that sends too much. */
export const HOT_LIMIT = 6;
export const HOT_WINDOW_MS = 1_000;

export const ALGORITHMS = ['fixed-window', 'sliding-window-counter', 'token-bucket'] as const;
export type HotAlgorithm = (typeof ALGORITHMS)[number];

/** Longer than any run, so that one window holds all that an outage admits. */
const LONG_SECONDS = 366 * 86_400;

/** In the form that the admin route takes. */
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
