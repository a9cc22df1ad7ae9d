// Draws curves over time. Loads uPlot with the first one.
import type uPlot from 'uplot';
import { fill, h } from './dom.ts';
import type { Points } from './series.ts';

export interface Curve {
  readonly label: string;
  /** The name of a colour in style.css. */
  readonly colour: string;
  readonly isArea?: boolean;
}

export interface ChartOptions {
  readonly title: string;
  readonly curves: readonly Curve[];
  readonly unit: string;
  readonly signal: AbortSignal;
}

export interface Chart {
  readonly element: HTMLElement;
  show(points: Points): void;
}

const HEIGHT = 200;

export function chart({ title, curves, unit, signal }: ChartOptions): Chart {
  const place = h('div', { class: 'plot' });
  const summary = h('p', { class: 'hint', role: 'note' }, 'No data yet.');
  const element = h('figure', {}, h('figcaption', {}, title), place, summary);
  let plot: uPlot | undefined;
  let latest: Points = [];

  const draw = async () => {
    const { default: Plot } = await import('uplot');
    if (signal.aborted || plot || !place.isConnected) return;
    plot = new Plot(optionsOf(curves, unit, place.clientWidth || 300), latest as uPlot.AlignedData, place);
    const resize = new ResizeObserver(() => plot?.setSize({ width: place.clientWidth, height: HEIGHT }));
    resize.observe(place);
    signal.addEventListener('abort', () => {
      resize.disconnect();
      plot?.destroy();
    });
  };

  return {
    element,
    show(points) {
      latest = points;
      fill(
        summary,
        curves.map(({ label, colour }, i) => [
          i > 0 && ' · ',
          h('span', { class: `key ${colour}` }, `${label}: ${latestOf(points[i + 1])} ${unit}`),
        ]),
      );
      if (plot) plot.setData(points as uPlot.AlignedData);
      else void draw();
    },
  };
}

const latestOf = (values: Points[number] = []) => values.findLast((value) => value !== null) ?? '–';

const HOUR = 3_600;
const pad = (value: number) => String(value).padStart(2, '0');

/** Short enough that no two labels overlap on a phone. The first label of a day has its date. */
function timeOf(seconds: number, stepSeconds: number): string {
  const at = new Date(seconds * 1_000);
  const hour = pad(at.getHours());
  const minute = pad(at.getMinutes());
  if (stepSeconds >= HOUR && hour === '00') return at.toLocaleDateString('en', DAY);
  return stepSeconds < 60 ? `${hour}:${minute}:${pad(at.getSeconds())}` : `${hour}:${minute}`;
}

const DAY = { day: 'numeric', month: 'short' } as const;

function optionsOf(curves: readonly Curve[], unit: string, width: number): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colourOf = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const axis = {
    stroke: colourOf('faint'),
    grid: { stroke: colourOf('line'), width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false },
    scales: {
      // Never less than a minute, because half a second of data is no curve.
      x: { range: (_plot, low, high) => [Math.min(low, high - 60), high] },
      y: { range: (_plot, _low, high) => [0, Math.max(1, high * 1.1)] },
    },
    axes: [
      {
        ...axis,
        size: 30,
        space: 64,
        values: (_plot, at, _axis, _space, step) => at.map((one) => timeOf(one, step)),
      },
      { ...axis, size: 46, values: (_plot, values) => values.map((value) => `${value}`) },
    ],
    series: [
      {},
      ...curves.map(({ label, colour, isArea }) => ({
        label: `${label} (${unit})`,
        stroke: colourOf(colour),
        width: 2,
        points: { show: false },
        ...(isArea && { fill: `${colourOf(colour)}33` }),
      })),
    ],
  };
}
