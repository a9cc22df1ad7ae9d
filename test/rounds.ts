// How much work the tests with random input do: random histories, random faults. `npm test` has a short form of each,
// `npm run test:long` runs the same code with more rounds.

export const isLong = process.env['WEIR_LONG'] === '1';

const MORE = 20;

/** Twenty times as many in the long form, or the given number. */
export const rounds = (usual: number, long = MORE * usual): number => (isLong ? long : usual);
