// Draws docs/images/scale.svg: Redis commands a second of a region over requests a second, both in powers of ten.
import { UPSTASH_COMMANDS_PER_SECOND } from './costs.ts';
import type { Row } from './table.ts';

const WIDTH = 760;
const HEIGHT = 420;
const EDGE = { left: 90, right: 210, top: 50, bottom: 60 };
const X = { from: 3, to: 7 };
const Y = { from: 1, to: 8 };

const LINES = [
  { label: 'each caller, leases on', rule: 'each caller', isLeased: true, color: '#08746f' },
  { label: 'everybody, leases off', rule: 'everybody', isLeased: false, color: '#cf3a50' },
  { label: 'everybody, leases on', rule: 'everybody', isLeased: true, color: '#2b6cb0' },
] as const;

export function drawScale(rows: readonly Row[], regions: number): string {
  const lines = LINES.map((line) => {
    const points = rows.filter(
      (row) => row.regions === regions && row.rule === line.rule && row.isLeased === line.isLeased,
    );
    return drawLine(points, line);
  });
  const title = `Redis commands a second of one of ${regions} regions`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="13">`,
    `<title>${title}</title>`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
    textAt(EDGE.left, 28, title, 'font-size="16" font-weight="bold"'),
    ...drawGrid(),
    ...drawBound(),
    ...lines,
    '</svg>\n',
  ].join('\n');
}

const powers = ({ from, to }: { readonly from: number; readonly to: number }) =>
  Array.from({ length: to - from + 1 }, (_, i) => from + i);
const xOf = (perSecond: number) =>
  EDGE.left + ((Math.log10(perSecond) - X.from) / (X.to - X.from)) * (WIDTH - EDGE.left - EDGE.right);
const yOf = (commands: number) =>
  HEIGHT -
  EDGE.bottom -
  ((Math.log10(commands) - Y.from) / (Y.to - Y.from)) * (HEIGHT - EDGE.top - EDGE.bottom);
const textAt = (x: number, y: number, text: string, more = '') =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" fill="#1c2733" ${more}>${text}</text>`;
const lineFrom = (x1: number, y1: number, x2: number, y2: number, style: string) =>
  `<line x1="${x1.toFixed(1)}" y1="${y1.toFixed(1)}" x2="${x2.toFixed(1)}" y2="${y2.toFixed(1)}" ${style}/>`;

function drawGrid(): string[] {
  const right = WIDTH - EDGE.right;
  const rows = powers(Y).flatMap((power) => [
    lineFrom(EDGE.left, yOf(10 ** power), right, yOf(10 ** power), 'stroke="#dde4ea"'),
    textAt(EDGE.left - 10, yOf(10 ** power) + 4, `10${superscript(power)}`, 'text-anchor="end"'),
  ]);
  const columns = powers(X).map((power) =>
    textAt(xOf(10 ** power), HEIGHT - EDGE.bottom + 20, `10${superscript(power)}`, 'text-anchor="middle"'),
  );
  const middle = (EDGE.left + right) / 2;
  return [...rows, ...columns, textAt(middle, HEIGHT - 14, 'requests a second', 'text-anchor="middle"')];
}

const superscript = (power: number) => '⁰¹²³⁴⁵⁶⁷⁸⁹'.charAt(power);

function drawBound(): string[] {
  const y = yOf(UPSTASH_COMMANDS_PER_SECOND);
  const style = 'stroke="#5d6b7a" stroke-dasharray="6 4"';
  return [
    lineFrom(EDGE.left, y, WIDTH - EDGE.right, y, style),
    textAt(EDGE.left + 6, y - 6, 'what one Upstash database takes'),
  ];
}

function drawLine(rows: readonly Row[], { label, color }: (typeof LINES)[number]): string {
  const points = rows.map(
    ({ perSecond, commands }) => `${xOf(perSecond).toFixed(1)},${yOf(commands).toFixed(1)}`,
  );
  const last = rows.at(-1);
  const end = last
    ? textAt(xOf(last.perSecond) + 8, yOf(last.commands) + 4, label, `style="fill:${color}"`)
    : '';
  return `<polyline points="${points.join(' ')}" fill="none" stroke="${color}" stroke-width="2.5"/>\n${end}`;
}
