// Says what the records show about another limit, in sentences that claim no more than is known. Pure.
import { count } from './format.ts';

export interface Effect {
  readonly unknown: string | null;
  readonly admitted: number;
  readonly denied: number;
  readonly unnamedAdmitted: number;
  readonly unnamedDenied: number;
  readonly atLeast: number;
  readonly surelyDenied: number;
  readonly perhapsDenied: number | null;
  readonly surelyNotDenied: number | null;
}

const callers = (number: number) => (number === 1 ? '1 caller' : `${count(number)} callers`);

export function effectSentences(effect: Effect): string[] {
  if (effect.unknown !== null) return [`Nothing can be said. ${effect.unknown}`];
  if (effect.admitted + effect.denied === 0)
    return ['Nothing can be said: nothing was recorded of this rule in the last day.'];
  return [certainOf(effect), ...openOf(effect), ...unnamedOf(effect)];
}

const certainOf = ({ atLeast, surelyDenied }: Effect) =>
  atLeast === 0
    ? 'No denial is certain.'
    : `At least ${count(atLeast)} units of ${callers(surelyDenied)} would have been denied.`;

function openOf({ perhapsDenied, surelyNotDenied }: Effect): string[] {
  if (perhapsDenied === null || surelyNotDenied === null)
    return ['Weir records only denials of addresses, so it does not know who else would have been denied.'];
  return [
    perhapsDenied > 0
      ? `For ${callers(perhapsDenied)} the records do not show it: they sent enough if they sent it at once, or only their denials are recorded.`
      : '',
    surelyNotDenied > 0 ? `${callers(surelyNotDenied)} would certainly not have been denied.` : '',
  ].filter(Boolean);
}

const unnamedOf = ({ unnamedAdmitted, unnamedDenied }: Effect): string[] =>
  [
    unnamedAdmitted > 0
      ? `${count(unnamedAdmitted)} units were admitted of callers who are counted by address, and are not told apart.`
      : '',
    unnamedDenied > 0
      ? `${count(unnamedDenied)} denials are of a flood, whose callers were not told apart.`
      : '',
  ].filter(Boolean);
