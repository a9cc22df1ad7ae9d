// The algorithms that the page offers. The browser gets no code of the engine, so their ids stand here once more. A test
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

/** Whether it limits what is open at once, not what comes in a time. */
export const holdsSeats = (algorithm: string): boolean => algorithm === 'concurrency';
