// Builds the Worker as `wrangler deploy` would and holds its gzip size under a budget.
import { execFileSync } from 'node:child_process';

const BUDGET_KIB = 150;

const output = execFileSync('wrangler', ['deploy', '--dry-run'], {
  encoding: 'utf8',
  env: { ...process.env, WRANGLER_SEND_METRICS: 'false', NO_COLOR: '1' },
});
const gzipKib = Number(/gzip: ([\d.]+) KiB/.exec(output)?.[1]);
if (Number.isNaN(gzipKib)) {
  console.error(`wrangler printed no bundle size:\n${output}`);
  process.exit(1);
}
console.log(`bundle: ${gzipKib} KiB gzip, budget ${BUDGET_KIB} KiB`);
if (gzipKib > BUDGET_KIB) {
  console.error(`the bundle is ${(gzipKib - BUDGET_KIB).toFixed(1)} KiB over its budget`);
  process.exit(1);
}
