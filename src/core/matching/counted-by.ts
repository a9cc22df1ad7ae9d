// `by` combines several parts into one subject. The client chooses some parts (headers, path parameters), and a new
// value must not give the client a fresh counter. So such a rule also has a bound, counted by its scope.
import { type Caller, claimIn } from './caller.ts';

const PLAIN_PARTS = ['user', 'apiKey', 'tenant', 'ip', 'country', 'asn', 'colo'] as const;
const NAMED_PARTS = ['header', 'claim', 'param'] as const;
export const MAX_PARTS = 3;
/** The valid parts of `by`; the same pattern is used in SQL. */
export const PART =
  /^(user|apiKey|tenant|ip|country|asn|colo|header:[A-Za-z0-9-]{1,64}|(claim|param):[A-Za-z0-9_-]{1,64})$/;

type Plain = (typeof PLAIN_PARTS)[number];
type Named = (typeof NAMED_PARTS)[number];
export type SubjectField = { readonly kind: Plain | Named; readonly name: string };

export function parseSubjectField(text: string): SubjectField {
  const [kind = '', name = ''] = text.split(':', 2);
  return { kind: kind as Plain | Named, name: kind === 'header' ? name.toLowerCase() : name };
}

/** Whether the client can choose the value freely. */
export const isChosenByClient = (part: string): boolean => /^(header|param):/.test(part);

/** Facts about a request beside its path, method and caller. */
export interface RequestFacts {
  host(): string;
  header(name: string): string | null;
  /** The value that Cloudflare reports; '' if it reports none. */
  place(kind: 'country' | 'asn' | 'colo'): string;
}

export const NO_FACTS: RequestFacts = { host: () => '', header: () => null, place: () => '' };

export interface CountedRequest {
  readonly matchPath: string;
  readonly caller: Caller;
  readonly facts?: RequestFacts | undefined;
}

/** Where the parameters of a resource are, counted in segments. */
export function parametersOf(resource: string): ReadonlyMap<string, number> {
  const segments = resource.split('/').filter((segment) => segment !== '');
  return new Map(
    segments.flatMap((segment, i) => {
      const name = /^:(.+)$|^\{(.+)\}$/.exec(segment);
      return name ? [[name[1] ?? name[2] ?? '', i] as const] : [];
    }),
  );
}

/** One text for each combination of values. A caller without the id of a part is counted by its IP there. */
export const subjectBy = (
  by: readonly string[],
  request: CountedRequest,
  parameters: ReadonlyMap<string, number> | undefined,
): string => by.map((part) => textOf(parseSubjectField(part), request, parameters)).join('/');

function textOf(
  { kind, name }: SubjectField,
  { caller, matchPath, facts = NO_FACTS }: CountedRequest,
  parameters: ReadonlyMap<string, number> | undefined,
): string {
  switch (kind) {
    case 'ip':
      return idOr(undefined, caller);
    case 'user':
      return idOr(caller.userId, caller);
    case 'apiKey':
      return idOr(caller.apiKeyId, caller);
    case 'tenant':
      return idOr(caller.tenantId, caller);
    case 'claim':
      return idOr(claimIn(caller.claims, name), caller);
    case 'header':
      return escaped(facts.header(name)?.trim() ?? '');
    case 'param':
      return escaped(segmentAt(matchPath, parameters?.get(name)));
    default:
      return escaped(facts.place(kind));
  }
}

/** No escaped id begins with @. */
const idOr = (id: string | undefined, { ip }: Caller): string =>
  id === undefined ? `@${escaped(ip)}` : escaped(id);

const segmentAt = (matchPath: string, place: number | undefined): string =>
  place === undefined ? '' : (matchPath.split('/').filter((segment) => segment !== '')[place] ?? '');

/** An escaped value does not contain the separator of the parts. */
export const escaped = (value: string): string => encodeURIComponent(value.toWellFormed());
