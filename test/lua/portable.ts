// The subset of Lua that means the same on Redis (6.2 to 8), Valkey and gopher-lua, which Upstash runs. docs/decisions
// has the reason of each rule. A violation is reported by file and line.
import luaparse, { type Chunk, type Expression, type Node, type ReturnStatement } from 'luaparse';

export interface Violation {
  readonly file: string;
  readonly line: number;
  readonly rule: string;
}

type Rule = (node: Node) => string | undefined;

/** Functions that return a list of values, or none at all. */
const VALUE_LISTS = new Set(['match', 'find', 'gsub', 'byte', 'unpack', 'pcall']);

const OTHER_LIBRARIES = new Set(['cmsgpack', 'cjson', 'struct', 'bit', 'os', 'io', 'debug', 'coroutine']);

const RULES: readonly Rule[] = [
  noCallOfACall,
  noListAsLastArgument,
  noLocalFromACallOfItself,
  noAssignmentThatReadsWhatItWrites,
  noTextInArithmetic,
  noNegativeRemainder,
  noUnpackOfWhatCanGrow,
  noUnboundedConcat,
  noInexactText,
  noReturnsOfDifferentLengths,
  noOtherLibrary,
];

export function findViolations(file: string, source: string): Violation[] {
  // The first line for Upstash is not Lua.
  const chunk = luaparse.parse(source.replace(/^#![^\n]*/, ''), {
    luaVersion: '5.1',
    locations: true,
    scope: true,
  });
  const violations: Violation[] = [];
  const stack: unknown[] = [chunk satisfies Chunk];
  while (stack.length > 0) {
    const node = stack.pop();
    if (Array.isArray(node)) stack.push(...node);
    else if (isNode(node)) {
      for (const rule of RULES) {
        const broken = rule(node);
        if (broken !== undefined) violations.push({ file, line: node.loc?.start.line ?? 0, rule: broken });
      }
      stack.push(...Object.values(node));
    }
  }
  return violations.sort((a, b) => a.line - b.line);
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && typeof (value as Partial<Node>).type === 'string';

/** The last name of the called function: `match` for `string.match(…)`. */
function calledName(node: Node): string | undefined {
  if (node.type !== 'CallExpression') return undefined;
  const { base } = node;
  if (base.type === 'Identifier') return base.name;
  return base.type === 'MemberExpression' ? base.identifier.name : undefined;
}

function noCallOfACall(node: Node): string | undefined {
  if (node.type !== 'CallExpression' || node.base.type !== 'CallExpression') return undefined;
  return 'a call of what a call returned: keep the function in a local first';
}

function noListAsLastArgument(node: Node): string | undefined {
  if (node.type !== 'CallExpression') return undefined;
  const last = node.arguments.at(-1);
  if (last === undefined) return undefined;
  const name = calledName(last);
  if (name === undefined || !VALUE_LISTS.has(name)) return undefined;
  // MGET takes all keys of the call, and their number is bounded.
  if (name === 'unpack' && calledName(node) === 'call') return undefined;
  return `the values of ${name} as the last argument: it may return none; keep it in a local first`;
}

function noAssignmentThatReadsWhatItWrites(node: Node): string | undefined {
  if (node.type !== 'AssignmentStatement' || node.variables.length < 2) return undefined;
  const written = new Set(node.variables.flatMap((one) => (one.type === 'Identifier' ? [one.name] : [])));
  const read = node.init.flatMap(namesIn);
  // A table that one target writes to may be read through another name. So several targets must all be plain names.
  const hasOthers = node.variables.some(({ type }) => type !== 'Identifier');
  if (!hasOthers && !read.some((name) => written.has(name))) return undefined;
  return 'a multiple assignment that reads what it writes: assign one by one';
}

function namesIn(expression: Expression): string[] {
  const names: string[] = [];
  const stack: unknown[] = [expression];
  while (stack.length > 0) {
    const node = stack.pop();
    if (Array.isArray(node)) stack.push(...node);
    else if (isNode(node)) {
      if (node.type === 'Identifier') names.push(node.name);
      stack.push(...Object.values(node));
    }
  }
  return names;
}

function noLocalFromACallOfItself(node: Node): string | undefined {
  if (node.type !== 'AssignmentStatement' || node.variables.length !== 1) return undefined;
  const [target] = node.variables;
  const [value] = node.init;
  if (target?.type !== 'Identifier' || value === undefined) return undefined;
  const call = value.type === 'LogicalExpression' ? value.right : value;
  const isRisky = call.type === 'CallExpression' && call.base.type === 'Identifier';
  if (!isRisky || !call.arguments.flatMap(namesIn).includes(target.name)) return undefined;
  return `${target.name} from a call that takes it: keep the result in a new local first`;
}

function noTextInArithmetic(node: Node): string | undefined {
  const isSum = node.type === 'BinaryExpression' && node.operator === '+';
  if (!isSum || node.right.type !== 'NumericLiteral' || node.right.value !== 0) return undefined;
  return 'text that becomes a number by + 0: use tonumber';
}

function noNegativeRemainder(node: Node): string | undefined {
  if (node.type !== 'BinaryExpression' || node.operator !== '%') return undefined;
  const isNegative = [node.left, node.right].some(
    (side) => (side.type === 'UnaryExpression' && side.operator === '-') || isDifference(side),
  );
  return isNegative ? 'a remainder of what can be negative: its sign differs' : undefined;
}

const isDifference = (node: Node) => node.type === 'BinaryExpression' && node.operator === '-';

function noUnpackOfWhatCanGrow(node: Node): string | undefined {
  if (calledName(node) !== 'unpack' || node.type !== 'CallExpression') return undefined;
  const [list] = node.arguments;
  // With a first and a last place, the script knows the number of values, and has refused too many.
  const isBounded = node.arguments.length === 3 || (list?.type === 'Identifier' && list.name === 'KEYS');
  return isBounded ? undefined : 'unpack of what can grow';
}

function noUnboundedConcat(node: Node): string | undefined {
  if (calledName(node) !== 'concat' || node.type !== 'CallExpression') return undefined;
  return node.arguments.length === 4 ? undefined : 'table.concat without a first and a last place';
}

function noInexactText(node: Node): string | undefined {
  if (calledName(node) === 'tostring') return 'tostring of a number loses digits: format it';
  const isFormat = calledName(node) === 'format' && node.type === 'CallExpression';
  const [pattern] = isFormat ? node.arguments : [];
  if (pattern?.type !== 'StringLiteral') return isFormat ? 'a format that is not written out' : undefined;
  // In this mode luaparse leaves out the value of literals, so this reads the raw text.
  const inexact = pattern.raw.replaceAll('%%', '').match(/%(?!s|d|\.0f)[^a-zA-Z]*[a-zA-Z]?/);
  return inexact ? `${inexact[0]} in a format: only %d, %.0f and %s are exact everywhere` : undefined;
}

function noReturnsOfDifferentLengths(node: Node): string | undefined {
  if (node.type !== 'FunctionDeclaration') return undefined;
  const lengths = new Set(returnsIn(node.body).map(({ arguments: values }) => values.length));
  // The end of a function is a return of nothing.
  if (node.body.at(-1)?.type !== 'ReturnStatement') lengths.add(0);
  return lengths.size > 1
    ? 'returns with different numbers of values: the missing ones are not nil'
    : undefined;
}

/** The returns of a function, without those of functions inside. */
function returnsIn(nodes: readonly unknown[]): ReturnStatement[] {
  return nodes.flatMap((node): ReturnStatement[] => {
    if (Array.isArray(node)) return returnsIn(node);
    if (!isNode(node) || node.type === 'FunctionDeclaration') return [];
    return node.type === 'ReturnStatement' ? [node] : returnsIn(Object.values(node));
  });
}

function noOtherLibrary(node: Node): string | undefined {
  if (node.type !== 'MemberExpression' || node.base.type !== 'Identifier') return undefined;
  const { name } = node.base;
  return OTHER_LIBRARIES.has(name) ? `the library ${name} is not known to be on every server` : undefined;
}
