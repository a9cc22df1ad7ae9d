// Turns Postgres text into JSON values, for clients that do not ask for raw text. The driver always asks for it.

const BOOL = 16;
const NUMBERS = new Set([21, 23, 700, 701]);
const JSON_TYPES = new Set([114, 3802]);

/** Type of a built-in array → type of its items. Arrays of user-defined types stay text, as with Neon. */
const ARRAY_ITEMS = new Map<number, number>([
  [1000, BOOL],
  [1005, 21],
  [1007, 23],
  [1021, 700],
  [1022, 701],
  [199, 114],
  [3807, 3802],
  // bytea, char, name, bigint, oid, text, varchar, bpchar, numeric, uuid, date, time, timestamp, with zone,
  // interval, inet, cidr: items stay text.
  ...[
    1001, 1002, 1003, 1016, 1028, 1009, 1015, 1014, 1231, 2951, 1182, 1183, 1115, 1185, 1187, 1041, 651,
  ].map((type): [number, number] => [type, 25]),
]);

export function toJsonValue(text: string, type: number): unknown {
  const itemType = ARRAY_ITEMS.get(type);
  if (itemType !== undefined) return parseArray(text, itemType);
  if (type === BOOL) return text === 't';
  if (JSON_TYPES.has(type)) return JSON.parse(text);
  if (!NUMBERS.has(type)) return text;
  // NaN and the infinities have no JSON number.
  return Number.isFinite(Number(text)) ? Number(text) : text;
}

const ARRAY_TOKEN = /\s*(?:([{},])|"((?:[^"\\]|\\[\s\S])*)"|([^{},"]+))/y;

function parseArray(text: string, itemType: number): unknown[] {
  // Bounds such as [0:1]={…} have no place in JSON.
  const start = text.indexOf('{');
  const tokens = new RegExp(ARRAY_TOKEN);
  tokens.lastIndex = start;
  const stack: unknown[][] = [[]];
  for (let token = tokens.exec(text); token !== null; token = tokens.exec(text)) {
    const [, mark, quoted, bare] = token;
    if (mark === '{') stack.push([]);
    else if (mark === '}') closeLevel(stack);
    else if (quoted !== undefined)
      stack.at(-1)?.push(toJsonValue(quoted.replace(/\\([\s\S])/g, '$1'), itemType));
    else if (bare !== undefined && bare.trim() !== '')
      stack.at(-1)?.push(bare.trim() === 'NULL' ? null : toJsonValue(bare.trim(), itemType));
  }
  return stack[0]?.[0] as unknown[];
}

function closeLevel(stack: unknown[][]): void {
  const level = stack.pop();
  stack.at(-1)?.push(level);
}
