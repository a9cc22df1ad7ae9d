// How much the tests do that could go on for ever: random histories, faults that come and go. `npm test` has a short form of
// each of them, `npm run test:long` the same code with more rounds.

export const isLong = process.env['WEIR_LONG'] === '1';

const MORE = 20;

/** Twenty times as many in the long form, or as many as it says. */
export const rounds = (usual: number, long = MORE * usual): number => (isLong ? long : usual);
