// `npm run test:upstash-lua`: runs all tests of scripts on the Lua of Upstash. Arguments after `--` go to vitest.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { StackError } from '../../local/ports.ts';
import { buildUpstashLua } from '../../local/upstash-lua/build.ts';

try {
  await buildUpstashLua({ say: (line) => console.log(`weir: ${line}`) });
} catch (error) {
  if (!(error instanceof StackError)) throw error;
  console.error(`weir: ${error.message}`);
  process.exit(1);
}
console.log(`gopher-lua: ${process.env['GOPHER_LUA_SRC'] || "the distribution's"}`);
// Each test waits for three processes in turn, so two tests at once keep two cores busy.
const vitest = spawn('vitest', ['run', '--maxWorkers=2', ...process.argv.slice(2)], {
  stdio: 'inherit',
  env: { ...process.env, WEIR_LUA: 'gopher' },
});
const [code] = await once(vitest, 'exit');
process.exit(code ?? 1);
