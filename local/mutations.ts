// The places of a source that can be changed, each in a way that leaves a valid program.
import { stripTypeScriptTypes } from 'node:module';
import { parseAst } from 'vite';

/** Replaces the text from `start` to `end`. */
export interface Mutation {
  readonly start: number;
  readonly end: number;
  readonly text: string;
  readonly was: string;
  readonly line: number;
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

const OPERATORS: Readonly<Record<string, string>> = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '===': '!==',
  '!==': '===',
  '+': '-',
  '-': '+',
  '*': '/',
  '/': '*',
  '&&': '||',
  '||': '&&',
};

/** Types become blanks, so places in the program are places in the source. */
export function mutationsOf(source: string): Mutation[] {
  const program = stripTypeScriptTypes(source);
  const found: Mutation[] = [];
  const change = (start: number, end: number, text: string) => {
    const was = source.slice(start, end).replace(/\s+/g, ' ');
    const line = source.slice(0, start).split('\n').length;
    if (text !== was) found.push({ start, end, text, was, line });
  };
  const textOf = ({ start, end }: Node) => source.slice(start, end);
  const visit = (node: Node): void => {
    const { type, start, end } = node;
    if (type === 'IfStatement' || type === 'ConditionalExpression') {
      const test = node['test'] as Node;
      change(test.start, test.end, `!(${textOf(test)})`);
    } else if (type === 'BinaryExpression' || type === 'LogicalExpression') {
      const [left, right, operator] = [node['left'] as Node, node['right'] as Node, String(node['operator'])];
      const other = OPERATORS[operator];
      const at = program.indexOf(operator, left.end);
      if (other && at < right.start) change(at, at + operator.length, other);
      if (operator === '??') change(start, end, `(${textOf(left)})`);
    } else if (type === 'ExpressionStatement') {
      const inner = (node['expression'] as Node).type;
      if (/^(Call|Assignment|Await|Update)Expression$/.test(inner)) change(start, end, ';');
    } else if (type === 'Literal') {
      const value = node['value'];
      if (typeof value === 'boolean') change(start, end, String(!value));
      if (typeof value === 'number') change(start, end, String(value + 1));
    } else if (type === 'UnaryExpression' && node['operator'] === '!') change(start, start + 1, '');
    else if (type === 'MemberExpression' && /^Math\.(max|min)$/.test(textOf(node)))
      change(start, end, textOf(node) === 'Math.max' ? 'Math.min' : 'Math.max');
    for (const [name, value] of Object.entries(node))
      if (name !== 'source')
        for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) visit(child);
  };
  visit(parseAst(program) as unknown as Node);
  return found.sort((a, b) => a.start - b.start || a.end - b.end);
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && typeof (value as Node).type === 'string';
