// The resource of a rule: a path (`/login`), a template (`/users/:id` or `/users/{id}`), a prefix (`/api/*`), names
// that begin alike (`/search*`) or everything (`/*`). It is normalised like the path of a request.

import { getOrSet, PrefixTable } from './conditions.ts';
import { canonicalPath } from './path.ts';

/** Paths that are Weir's own: never proxied, never limited by rules. */
export const OWN_PREFIX = '/_weir';

export const isOwnPath = (matchPath: string) =>
  matchPath === OWN_PREFIX || matchPath.startsWith(`${OWN_PREFIX}/`);

/** Stands for a parameter, whatever its name. No literal segment is spelled like this: URLs encode braces. */
export const PARAMETER = '{}';
const MAX_SEGMENTS = 32;

/** A parsed resource. */
export interface Route {
  readonly segments: readonly string[];
  readonly isPrefix: boolean;
  /** The beginning of the segment after these: `search` of `/search*`. */
  readonly stem?: string | undefined;
}

export type ParsedResource =
  | ({ readonly ok: true } & Route)
  | { readonly ok: false; readonly problem: string };

export function parseResource(resource: string): ParsedResource {
  if (!resource.startsWith('/')) return wrong('must start with /');
  const isPrefix = resource.endsWith('/*');
  const isStem = !isPrefix && resource.endsWith('*');
  const written = (isPrefix || isStem ? resource.slice(0, -1) : resource).split('/');
  if (isStem && !isStemName(written.at(-1) ?? ''))
    return wrong('may have a * only after a / or after the beginning of a name, as in /search*');
  const names = new Set<string>();
  for (const segment of written) {
    const name = parameterName(segment);
    const problem = nameProblem(segment, name);
    if (problem !== undefined) return wrong(problem);
    if (name === undefined) continue;
    if (names.has(name)) return wrong(`has two parameters named ${name}`);
    names.add(name);
  }
  const template = written.map((segment) =>
    parameterName(segment) === undefined ? encode(segment) : PARAMETER,
  );
  const parsed = parseTemplate(template.join('/'), isPrefix);
  if (!parsed.ok || !isStem) return parsed;
  return { ...parsed, segments: parsed.segments.slice(0, -1), stem: parsed.segments.at(-1) ?? '' };
}

/** A stem has no parameter, no escape, and no dot or blank at its end, because matching could change them. */
const isStemName = (name: string) => parameterName(name) === undefined && /^[^;%]*[^;%.\s]$/.test(name);

function parseTemplate(template: string, isPrefix: boolean): ParsedResource {
  if (template.includes('*')) return wrong('may have a * only at its end, as in /api/* or /search*');
  if (/[?#]/.test(template)) return wrong('is a path: it has no ? and no #');
  const canonical = canonicalPath(template);
  if (!canonical.ok) return wrong(canonical.reason);
  if (isOwnPath(canonical.matchPath)) return wrong(`is under ${OWN_PREFIX}, which rules do not apply to`);
  const segments = segmentsOf(canonical.matchPath);
  if (segments.length > MAX_SEGMENTS) return wrong(`has more than ${MAX_SEGMENTS} segments`);
  return { ok: true, segments, isPrefix };
}

/** Why a resource could never match a request, or undefined. */
export function resourceProblem(resource: string): string | undefined {
  const parsed = parseResource(resource);
  return parsed.ok ? undefined : parsed.problem;
}

/** One text for all spellings of a resource: `/users/:id` and `/Users/{name}/` are the same. */
export function slotOf(resource: string): string {
  const parsed = parseResource(resource);
  if (!parsed.ok) return resource;
  const path = parsed.segments.map((segment) => `/${segment}`).join('');
  if (parsed.stem !== undefined) return `${path}/${parsed.stem}*`;
  return parsed.isPrefix ? `${path}/*` : path || '/';
}

/** Whether the first resource matches every path that the second one matches. */
export function contains(wide: Route, narrow: Route): boolean {
  const isOpen = ({ isPrefix, stem }: Route) => isPrefix || stem !== undefined;
  if (!isOpen(wide) && (isOpen(narrow) || narrow.segments.length !== wide.segments.length)) return false;
  const length = narrow.segments.length + (narrow.stem === undefined ? 0 : 1);
  const isInside = wide.segments.every((segment, i) =>
    segment === PARAMETER ? i < length : segment === narrow.segments[i],
  );
  if (wide.stem === undefined) return isInside;
  const next =
    narrow.segments[wide.segments.length] ?? (length > wide.segments.length ? narrow.stem : undefined);
  return isInside && next?.startsWith(wide.stem) === true;
}

const wrong = (problem: string): ParsedResource => ({ ok: false, problem });

export const segmentsOf = (matchPath: string) => matchPath.split('/').filter((segment) => segment !== '');

/** Undefined for a literal segment. If the segment only looks like a parameter, `nameProblem` refuses its name. */
function parameterName(segment: string): string | undefined {
  if (segment.startsWith(':')) return segment.slice(1);
  if (segment.startsWith('{') && segment.endsWith('}')) return segment.slice(1, -1);
  return undefined;
}

function nameProblem(segment: string, name: string | undefined): string | undefined {
  if (name === undefined)
    return /[{}]/.test(segment) ? `has { or } in "${segment}": a parameter is a whole segment` : undefined;
  if (name === '') return `has a parameter without a name in "${segment}"`;
  if (name.endsWith('?')) return `has "${segment}": a parameter cannot be optional: write two rules`;
  if (/[{}:(]/.test(name)) return `has "${segment}": a parameter has no pattern and is a whole segment`;
  return /^[\w-]+$/.test(name) ? undefined : `has "${segment}": a name has only letters, digits, _ and -`;
}

/** Encodes a segment like the URL of a request. A `%` stays, because it already begins an escape. */
const encode = (segment: string) =>
  segment.toWellFormed().replace(/[^\x21-\x7e]|["<>^`]/gu, (character) => encodeURIComponent(character));

// A trie of resources. It finds the values of all resources that a path matches, segment by segment. The cost depends
// on the path and its matches, not on the number of resources.

interface Node<T> {
  /** Most nodes are leaves. */
  literals: Map<string, Node<T>> | undefined;
  parameter: Node<T> | undefined;
  /** The values of resources that end here with the beginning of a name, as in `/search*`. */
  stems: PrefixTable<T> | undefined;
  /** The value of the resource that ends here. */
  exact: T | undefined;
  /** The value of the resource that ends here with `/*`. */
  prefix: T | undefined;
}

export interface RouteTrie<T> {
  /** The value of a resource; created on first use. */
  at(route: Route, create: () => T): T;
  /** From the broadest resource to the narrowest; literal segments before parameters. */
  find(matchPath: string): T[];
}

const SLASH = '/'.charCodeAt(0);

export function createRouteTrie<T>(): RouteTrie<T> {
  const root = createNode<T>();
  return {
    at({ segments, isPrefix, stem }, create) {
      const node = segments.reduce(childOf, root);
      if (stem !== undefined) {
        node.stems ??= new PrefixTable();
        return node.stems.getOrSet(stem, create);
      }
      const kind = isPrefix ? 'prefix' : 'exact';
      node[kind] ??= create();
      return node[kind];
    },
    find(matchPath) {
      const found: T[] = [];
      walk(root, matchPath, 0, found);
      return found;
    },
  };
}

const createNode = <T>(): Node<T> => ({
  literals: undefined,
  parameter: undefined,
  stems: undefined,
  exact: undefined,
  prefix: undefined,
});

function childOf<T>(node: Node<T>, segment: string): Node<T> {
  if (segment === PARAMETER) {
    node.parameter ??= createNode();
    return node.parameter;
  }
  node.literals ??= new Map();
  return getOrSet(node.literals, segment, createNode<T>);
}

function walk<T>(node: Node<T>, path: string, from: number, found: T[]): void {
  if (node.prefix !== undefined) found.push(node.prefix);
  let start = from;
  // Treats repeated slashes as one, so that no spelling makes an empty segment.
  while (path.charCodeAt(start) === SLASH) start += 1;
  if (start >= path.length) {
    if (node.exact !== undefined) found.push(node.exact);
    return;
  }
  if (node.literals === undefined && node.parameter === undefined && node.stems === undefined) return;
  const slash = path.indexOf('/', start);
  const end = slash === -1 ? path.length : slash;
  const segment = path.slice(start, end);
  if (node.stems !== undefined) found.push(...node.stems.find(segment));
  const literal = node.literals?.get(segment);
  if (literal !== undefined) walk(literal, path, end, found);
  if (node.parameter !== undefined) walk(node.parameter, path, end, found);
}
