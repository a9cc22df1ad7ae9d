#!/usr/bin/env node
// The process that `npx weir` starts.
import { runWeir } from './weir.ts';

process.exitCode = await runWeir({
  args: process.argv.slice(2),
  variables: process.env,
  print: (line) => console.log(line),
  complain: (line) => console.error(line),
});
