// Draws docs/images/regions.svg from the figures of the bench: npm run bench -- regions --json | tail -1 | node
// bench/regions/draw.ts
import { mkdirSync, writeFileSync } from 'node:fs';
import { text as readAll } from 'node:stream/consumers';

const WIDTH = 760;
const ROW = 22;
const LEFT = 250;
const BAR = 330;

const COLORS = {
  light: { ground: '#fff', text: '#1c2733', soft: '#5d6b7a', weir: '#08746f', peer: '#b9c4cf' },
  dark: { ground: '#0f151b', text: '#e6edf3', soft: '#96a4b3', weir: '#45cfc0', peer: '#4a5766' },
};
const styleOf = (c: typeof COLORS.light) =>
  `.ground{fill:${c.ground}}text{fill:${c.text}}.soft{fill:${c.soft}}.weir{fill:${c.weir}}.peer{fill:${c.peer}}`;
const STYLE = `text{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}.name{font-weight:600}
.title{font-size:16px;font-weight:600}${styleOf(COLORS.light)}
@media (prefers-color-scheme:dark){${styleOf(COLORS.dark)}}`;

type ByTraffic = Readonly<Record<string, number>>;

interface Measured {
  readonly overAdmitted: number;
  readonly peerOverAdmitted: number;
  readonly besidePeer: {
    readonly utilization: ByTraffic;
    readonly farCallsPerRequest: ByTraffic;
    readonly commandsPerRequest: ByTraffic;
  };
  readonly peerUtilization: ByTraffic;
  readonly peerFarCallsPerRequest: ByTraffic;
  readonly peerCommandsPerRequest: ByTraffic;
}

const TRAFFICS = { oneRegion: 'all in one region', even: 'spread evenly', skewed: '80, 15 and 5 %' };

const label = (x: number, y: number, css: string, body: string) =>
  `<text x="${x}" y="${y}" class="${css}">${body}</text>`;

/** Two bars for each traffic, on one scale. */
function chart(top: number, title: string, weir: ByTraffic, peer: ByTraffic, unit: string): string[] {
  const names = Object.entries(TRAFFICS);
  const most = Math.max(...names.flatMap(([name]) => [weir[name] ?? 0, peer[name] ?? 0]));
  const bar = (y: number, css: string, value: number) =>
    `<rect class="${css}" x="${LEFT}" y="${y}" width="${Math.max(1, (value / most) * BAR).toFixed(1)}" height="13" rx="2"/>` +
    label(LEFT + (value / most) * BAR + 8, y + 11, 'soft', `${value.toFixed(2)}${unit}`);
  return [
    label(20, top, 'name', title),
    ...names.flatMap(([name, said], i) => {
      const y = top + 14 + i * 2.4 * ROW;
      return [
        label(40, y + 18, '', said),
        bar(y, 'weir', weir[name] ?? 0),
        bar(y + 16, 'peer', peer[name] ?? 0),
      ];
    }),
  ];
}

function draw(measured: Measured): string {
  const title = 'One limit over three regions';
  const least = (by: ByTraffic) => `${(Math.min(...Object.values(by)) * 100).toFixed(1)} %`;
  const lines = [
    label(20, 32, 'title', title),
    `<rect class="weir" x="20" y="46" width="11" height="11"/>`,
    label(
      38,
      56,
      'soft',
      `Weir: ${measured.overAdmitted} over the limit, at least ${least(measured.besidePeer.utilization)} of it used`,
    ),
    `<rect class="peer" x="20" y="66" width="11" height="11"/>`,
    label(
      38,
      76,
      'soft',
      `MultiRegionRatelimit of @upstash/ratelimit: ${measured.peerOverAdmitted} over the limit`,
    ),
    ...chart(
      112,
      'Calls to another region, per request',
      measured.besidePeer.farCallsPerRequest,
      measured.peerFarCallsPerRequest,
      '',
    ),
    ...chart(
      300,
      'Redis commands, per request',
      measured.besidePeer.commandsPerRequest,
      measured.peerCommandsPerRequest,
      '',
    ),
  ];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} 480" role="img" aria-label="${title}">
<title>${title}</title>
<style>${STYLE}</style>
<rect class="ground" width="${WIDTH}" height="480" rx="8"/>
${lines.join('\n')}
</svg>
`;
}

const folder = new URL('../../docs/images/', import.meta.url);
mkdirSync(folder, { recursive: true });
writeFileSync(new URL('regions.svg', folder), draw(JSON.parse(await readAll(process.stdin)) as Measured));
