// A trie of resources. It finds the values of all resources that a path matches, segment by segment. The cost depends
// on the path and its matches, not on the number of resources.
import { NameTable } from './name-table.ts';
import { PARAMETER, type Route } from './resource.ts';
import { PrefixTable } from './subjects.ts';

interface Node<T> {
  /** Most nodes are leaves. */
  literals: NameTable<Node<T>> | undefined;
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
  node.literals ??= new NameTable();
  return node.literals.getOrSet(segment, createNode<T>);
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
  if (node.stems !== undefined) found.push(...node.stems.find(path, start, end));
  const literal = node.literals?.get(path, start, end);
  if (literal !== undefined) walk(literal, path, end, found);
  if (node.parameter !== undefined) walk(node.parameter, path, end, found);
}
