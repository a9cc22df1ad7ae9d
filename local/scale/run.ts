// `npm run simulate -- --scale`: plays leases on virtual time, then computes what each resource needs at scale.
import { writeFile } from 'node:fs/promises';
import { playSteadyTraffic } from '../simulator/steady-traffic.ts';
import { callsPerSecond } from './model.ts';
import { drawScale } from './picture.ts';
import { renderRows, scaleRows } from './table.ts';

const PICTURE = new URL('../../docs/images/scale.svg', import.meta.url);
const DRAWN_REGIONS = 3;
/** The load is twice the limit: 400 a second, of which 200 pass. */
const SAMPLE = { algorithm: 'fixed-window', limit: 12_000, windowSeconds: 60, windows: 3 } as const;
const AT_ONE_ISOLATE = { roundTripMs: 80, weights: [1, 0, 0] };

/** Returns 1 if more than the limit was admitted. */
export async function showScale({ json }: { readonly json: boolean }): Promise<number> {
  const played = await playSteadyTraffic({ ...SAMPLE, ...AT_ONE_ISOLATE });
  const { utilization, callsPerRequest, beyondWindow } = played;
  const perSecond = SAMPLE.limit / SAMPLE.windowSeconds;
  const modelled = callsPerSecond(perSecond, true) / perSecond;
  const rows = scaleRows();
  console.log(
    `One isolate at ${perSecond} admitted requests a second, on virtual time: ${callsPerRequest.toFixed(4)} calls a ` +
      `request (an admitted one by the model: ${modelled.toFixed(4)}), ${utilization.toFixed(3)} of the limit used, ` +
      `${beyondWindow} over it.\n\n${renderRows(rows)}`,
  );
  await writeFile(PICTURE, drawScale(rows, DRAWN_REGIONS));
  if (json) console.log(JSON.stringify({ overAdmitted: beyondWindow, utilization, callsPerRequest, rows }));
  return beyondWindow > 0 ? 1 : 0;
}
