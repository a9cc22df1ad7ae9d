// The algorithms that the page offers. The browser gets no code of the engine, so this file repeats their ids. A test
// compares them with the registry.
export const ALGORITHMS = [
  'fixed-window',
  'sliding-window-log',
  'sliding-window-counter',
  'sliding-window-buckets',
  'token-bucket',
  'leaky-bucket',
  'gcra',
  'concurrency',
];

/** Whether the algorithm limits open connections, and not requests over time. */
export const holdsSeats = (algorithm: string): boolean => algorithm === 'concurrency';
