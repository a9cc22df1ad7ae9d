// Draws the stories as one picture: plain SVG text without other fonts, scripts or files.
import { LENGTH_MS, LIMIT, type Story, WINDOW_MS } from './traffic.ts';

const WIDTH = 1_040;
const TOP = 76;
const LEFT = 214;
const RIGHT = 156;
const ADMITTED_X = WIDTH - 84;
const MAX_X = WIDTH - 20;
const PITCH = 74;
/** The height of one unit. Requests and remaining units have the same scale. */
const UNIT = 3.6;
const MARK = 2.8;
/** Requests this close together are stacked. */
const STACK_MS = 230;

const COLORS = {
  light: {
    ground: '#fff',
    text: '#1c2733',
    soft: '#5d6b7a',
    grid: '#c6d0da',
    area: '#dbe9f6',
    line: '#7fa9cf',
    yes: '#08746f',
    no: '#cf3a50',
  },
  dark: {
    ground: '#0f151b',
    text: '#e6edf3',
    soft: '#96a4b3',
    grid: '#303b47',
    area: '#1b3247',
    line: '#4f83ad',
    yes: '#45cfc0',
    no: '#ff7383',
  },
};

const styleOf = (c: typeof COLORS.light) =>
  `.ground{fill:${c.ground}}text{fill:${c.text}}.soft{fill:${c.soft}}.grid{stroke:${c.grid}}` +
  `.area{fill:${c.area}}.line{stroke:${c.line}}.yes{fill:${c.yes}}.no{fill:${c.no}}.turn{stroke:${c.yes}}`;

const STYLE = `text{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}.name{font-weight:600}
.small{font-size:11.5px}.title{font-size:16px;font-weight:600}.line,.grid,.turn{fill:none}.line{stroke-width:1}
${styleOf(COLORS.light)}
@media (prefers-color-scheme:dark){${styleOf(COLORS.dark)}}`;

const round = (value: number) => Number(value.toFixed(1));
const xOf = (atMs: number) => round(LEFT + (atMs / LENGTH_MS) * (WIDTH - LEFT - RIGHT));
const text = (x: number, y: number, css: string, body: string, anchor = 'start') =>
  `<text x="${x}" y="${y}" class="${css}"${anchor === 'start' ? '' : ` text-anchor="${anchor}"`}>${body}</text>`;

export function drawStories(stories: readonly Story[]): string {
  const bottom = TOP + stories.length * PITCH;
  const requests = (stories[0]?.admittedMs.length ?? 0) + (stories[0]?.deniedMs.length ?? 0);
  const title = `The same ${requests} requests through eight algorithms`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${bottom + 40}" role="img" aria-label="${title}">`,
    `<title>${title}</title>`,
    `<style>${STYLE}</style>`,
    `<rect class="ground" width="${WIDTH}" height="${bottom + 40}" rx="8"/>`,
    legend(title),
    axis(bottom),
    ...stories.map((story, i) => row(story, TOP + i * PITCH + LIMIT * UNIT + 4)),
    '</svg>\n',
  ].join('\n');
}

const legend = (title: string) =>
  [
    text(20, 32, 'title', title),
    text(20, 56, 'soft', `Limit ${LIMIT} per ${WINDOW_MS / 1_000} s`),
    `<rect class="yes" x="${LEFT}" y="47" width="9" height="9"/>`,
    text(LEFT + 16, 56, 'soft', 'admitted'),
    `<rect class="no" x="${LEFT + 88}" y="47" width="9" height="9"/>`,
    text(LEFT + 104, 56, 'soft', 'denied'),
    `<rect class="area" x="${LEFT + 164}" y="47" width="18" height="9"/><path class="line" d="M${LEFT + 164} 47h18"/>`,
    text(LEFT + 189, 56, 'soft', 'units that remain'),
    `<path class="grid" stroke-dasharray="2 3" d="M${LEFT + 320} 44v14"/>`,
    text(LEFT + 328, 56, 'soft', 'a window begins'),
    text(ADMITTED_X, 56, 'soft small', 'admitted', 'end'),
    text(MAX_X, 41, 'soft small', 'most in', 'end'),
    text(MAX_X, 56, 'soft small', `any ${WINDOW_MS / 1_000} s`, 'end'),
  ].join('\n');

function axis(bottom: number): string {
  const seconds = Array.from({ length: LENGTH_MS / 5_000 + 1 }, (_, i) => i * 5);
  const borders = seconds.filter((second) => (second * 1_000) % WINDOW_MS === 0);
  const lines = borders.map((second) => `M${xOf(second * 1_000)} ${TOP - 4}V${bottom}`).join('');
  return [
    `<path class="grid" stroke-dasharray="2 3" d="${lines}"/>`,
    ...seconds.map((second) => text(xOf(second * 1_000), bottom + 18, 'soft small', `${second} s`, 'middle')),
  ].join('\n');
}

/** Admitted requests stand on the base line, in front of the area of remaining units. Denied ones hang from it. */
function row(story: Story, base: number): string {
  const { algorithm, note, admittedMs, deniedMs, turnsMs, remaining, most } = story;
  const end = xOf(LENGTH_MS);
  const steps = remaining.map(([atMs, units]) => `H${xOf(atMs)}V${round(base - units * UNIT)}`).join('');
  const line = `M${xOf(0)} ${round(base - (remaining[0]?.[1] ?? 0) * UNIT)}${steps}H${end}`;
  return [
    `<g><path class="area" d="${line}V${base}H${xOf(0)}z"/><path class="line" d="${line}"/>`,
    `<path class="grid" d="M${xOf(0)} ${base}H${end}"/>`,
    `<path class="yes" d="${squares(stack(admittedMs, (n) => base - 1 - n * UNIT - MARK))}"/>`,
    `<path class="no" d="${squares(stack(deniedMs, (n) => base + 1.2 + n * UNIT))}"/>`,
    ...turnsMs
      .filter((atMs) => atMs < LENGTH_MS)
      .map((atMs) => `<circle class="turn" cx="${xOf(atMs)}" cy="${base + 26}" r="2.2"/>`),
    text(20, base - 14, 'name', algorithm),
    text(20, base + 3, 'soft small', note),
    text(ADMITTED_X, base - 6, 'name', `${admittedMs.length}`, 'end'),
    text(MAX_X, base - 6, 'name', `${most}`, 'end'),
    '</g>',
  ].join('\n');
}

/** A request soon after another is drawn on top of it. */
function stack(times: readonly number[], yOf: (place: number) => number): [number, number][] {
  let [startMs, height] = [Number.NEGATIVE_INFINITY, 0];
  return times.map((atMs) => {
    if (atMs - startMs >= STACK_MS) [startMs, height] = [atMs, 0];
    return [xOf(startMs), round(yOf(height++))];
  });
}

const squares = (corners: readonly (readonly [number, number])[]) =>
  corners.map(([x, y]) => `M${round(x)} ${y}h${MARK}v${MARK}h-${MARK}z`).join('');
