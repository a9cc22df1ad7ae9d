// The fields of a rule: how the form shows each one and reads it back.

import {
  areaField,
  type Bounds,
  choiceField,
  flagField,
  numberField,
  numberOf,
  textField,
  textOf,
} from '../fields.ts';
import { localInput } from '../format.ts';
import { ALGORITHMS } from '../rule-sentence.ts';

export type Values = Readonly<Record<string, unknown>>;

type Kind = 'text' | 'number' | 'flag' | 'list' | 'numbers' | 'json' | 'moment' | readonly string[];

interface RuleField {
  readonly name: string;
  readonly label: string;
  readonly kind: Kind;
  readonly hint?: string;
  /** Null if the field may be empty. */
  readonly empty?: null;
  /** The bounds of a number, as in the API. */
  readonly bounds?: Bounds;
}

export const MAX_LIMIT = 1_000_000_000_000;
const SECONDS = { min: 1, max: 31_622_400 };

export const MAIN_FIELDS: readonly RuleField[] = [
  { name: 'name', label: 'Name', kind: 'text', hint: 'For operators. If empty, Weir makes one.' },
  {
    name: 'resource',
    label: 'Resource',
    kind: 'text',
    empty: null,
    hint: '/login, /users/:id, /api/* or /*',
  },
  { name: 'methods', label: 'Methods', kind: 'list', hint: 'None: every method' },
  { name: 'scope', label: 'Counted by', kind: ['ip', 'user', 'apiKey', 'tenant', 'global', 'all'] },
  { name: 'algorithm', label: 'Algorithm', kind: ALGORITHMS },
  { name: 'limit', label: 'Limit', kind: 'number', bounds: { min: 1, max: MAX_LIMIT }, empty: null },
  { name: 'windowSeconds', label: 'Window in seconds', kind: 'number', bounds: SECONDS, empty: null },
  {
    name: 'window',
    label: 'Window of the calendar',
    kind: ['', 'day', 'week', 'month'],
    empty: null,
    hint: 'Instead of seconds: fixed-window',
  },
  {
    name: 'limitName',
    label: 'Limit of the tier',
    kind: 'text',
    empty: null,
    hint: 'The name of a limit that tiers or tenants have',
  },
  { name: 'action', label: 'When it is exceeded', kind: ['reject', 'throttle', 'log', 'allow', 'multiply'] },
  { name: 'enabled', label: 'Enabled', kind: 'flag' },
];

export const MORE_FIELDS: readonly RuleField[] = [
  { name: 'tiers', label: 'Only these tiers', kind: 'list' },
  { name: 'tenants', label: 'Only these tenants', kind: 'list', hint: 'Whatever the rule counts by' },
  { name: 'subjects', label: 'Only these subjects', kind: 'list', hint: 'Makes it an override' },
  {
    name: 'priority',
    label: 'Priority',
    kind: 'number',
    bounds: { isFraction: true },
    hint: 'Lower comes first',
  },
  {
    name: 'burst',
    label: 'Burst',
    kind: 'number',
    bounds: { min: 1, max: MAX_LIMIT },
    empty: null,
    hint: 'token-bucket, leaky-bucket, gcra',
  },
  {
    name: 'times',
    label: 'Times',
    kind: 'number',
    bounds: { min: 0.001, max: 1_000_000, isFraction: true },
    empty: null,
    hint: 'multiply: limits of its scope are so many times as large',
  },
  {
    name: 'limitClaim',
    label: 'Limit of a claim',
    kind: 'text',
    empty: null,
    hint: 'The name of the claim; the limit is for callers without it',
  },
  {
    name: 'limitMax',
    label: 'The most that a claim can give',
    kind: 'number',
    bounds: { min: 1, max: MAX_LIMIT },
    empty: null,
  },
  {
    name: 'timeZone',
    label: 'Time zone',
    kind: 'text',
    empty: null,
    hint: 'For calendar windows; UTC if empty',
  },
  {
    name: 'anchorDay',
    label: 'Months begin on day',
    kind: 'number',
    bounds: { min: 1, max: 31 },
    empty: null,
  },
  {
    name: 'buckets',
    label: 'Buckets',
    kind: 'number',
    bounds: { min: 1, max: 100 },
    empty: null,
    hint: 'sliding-window-buckets',
  },
  { name: 'cost', label: 'Cost of a request', kind: 'number', bounds: { min: 1, max: 1_000_000_000 } },
  { name: 'status', label: 'Status of a denial', kind: 'number', bounds: { min: 400, max: 599 } },
  { name: 'message', label: 'Message of a denial', kind: 'text', empty: null },
  {
    name: 'blockSeconds',
    label: 'Block violators for seconds',
    kind: 'number',
    bounds: SECONDS,
    empty: null,
  },
  {
    name: 'maxDelayMs',
    label: 'Longest wait in ms',
    kind: 'number',
    bounds: { min: 1, max: 30_000 },
    empty: null,
    hint: 'throttle',
  },
  { name: 'onUnavailable', label: 'Without counters', kind: ['open', 'local', 'closed'] },
  { name: 'percent', label: 'Percent of subjects', kind: 'number', bounds: { min: 0, max: 100 } },
  { name: 'validFrom', label: 'From', kind: 'moment', empty: null },
  { name: 'validUntil', label: 'Until', kind: 'moment', empty: null },
  { name: 'alertAt', label: 'Alert at percent', kind: 'numbers' },
  { name: 'policy', label: 'Name for clients', kind: 'text', empty: null },
  { name: 'countDenied', label: 'Count denied requests too', kind: 'flag' },
  { name: 'replaces', label: 'Replaces broader rules', kind: 'flag' },
  { name: 'costFromOrigin', label: 'The origin tells the cost', kind: 'flag' },
  { name: 'refundOnError', label: 'Refund requests that did not reach the origin', kind: 'flag' },
  { name: 'spill', label: 'Use the parts of other regions', kind: 'flag' },
  { name: 'central', label: 'Count each subject in one region', kind: 'flag' },
  { name: 'lease', label: 'Lease to busy isolates', kind: 'flag' },
  { name: 'resources', label: 'Several resources', kind: 'list', hint: 'Instead of one' },
  { name: 'hosts', label: 'Only these hosts', kind: 'list', hint: 'api.example.com, *.example.com' },
  { name: 'routes', label: 'Only these routes', kind: 'list', hint: 'Names of routes to origins' },
  { name: 'per', label: 'A counter for each', kind: 'list', hint: 'route, method' },
  {
    name: 'by',
    label: 'Counted by these parts together',
    kind: 'list',
    hint: 'user, apiKey, tenant, ip, country, asn, colo, header:NAME, claim:NAME, param:NAME',
  },
  {
    name: 'boundTimes',
    label: 'Bound of what clients choose',
    kind: 'number',
    bounds: { min: 1, max: 1_000_000 },
    hint: 'This many times the limit, counted by the scope',
  },
  { name: 'limits', label: 'Several limits (JSON)', kind: 'json' },
  { name: 'costs', label: 'Costs by resource (JSON)', kind: 'json' },
  { name: 'shares', label: 'Parts by region (JSON)', kind: 'json', empty: null },
];

const ALL = [...MAIN_FIELDS, ...MORE_FIELDS];

export function inputOf({ name, label, kind, hint, bounds = {} }: RuleField, value: unknown): HTMLElement {
  const options = { name, label, hint };
  if (kind === 'flag') return flagField(options, value === true);
  if (typeof kind === 'object') {
    const choices = kind.map((one) => [one, one || 'none'] as const);
    return choiceField(options, choices, String(value ?? kind[0]));
  }
  if (kind === 'json') return areaField(options, value == null ? '' : JSON.stringify(value, null, 1));
  if (kind === 'number') return numberField(options, bounds, typeof value === 'number' ? value : null);
  if (kind === 'moment')
    return textField(
      { ...options, attributes: { type: 'datetime-local' } },
      typeof value === 'string' ? localInput(Date.parse(value)) : '',
    );
  return textField(options, Array.isArray(value) ? value.join(', ') : String(value ?? ''));
}

/** The values in the form. */
export const valuesIn = (form: HTMLFormElement): Record<string, unknown> =>
  Object.fromEntries(ALL.map((field) => [field.name, valueIn(form, field)]));

function valueIn(form: HTMLFormElement, { name, kind, empty }: RuleField): unknown {
  if (kind === 'flag') return new FormData(form).has(name);
  const text = textOf(form, name);
  if (kind === 'list' || kind === 'numbers') {
    const items = text
      .split(',')
      .map((item) => item.trim())
      .filter(Boolean);
    return kind === 'list' ? items : items.map(Number);
  }
  if (text === '') return empty;
  if (kind === 'number') return numberOf(form, name);
  if (kind === 'json') return parseJson(text);
  return kind === 'moment' ? new Date(text).toISOString() : text;
}

/** A text that is not JSON goes to the API unchanged, which reports it at the field. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The fields whose value has changed. Times are compared to the minute, as the form shows them. */
export function changedFields(before: Values, after: Values): Record<string, unknown> {
  const isMoment = (name: string) => ALL.some((field) => field.name === name && field.kind === 'moment');
  const same = (name: string, value: unknown) =>
    isMoment(name) && typeof value === 'string' && typeof before[name] === 'string'
      ? localInput(Date.parse(value)) === localInput(Date.parse(before[name]))
      : JSON.stringify(value) === JSON.stringify(before[name]);
  return Object.fromEntries(
    Object.entries(after).filter(([name, value]) => value !== undefined && !same(name, value)),
  );
}
