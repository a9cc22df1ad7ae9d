#!/usr/bin/env node
// The command `weir`. In a clone it runs the sources, so that it needs no build; in a package it runs what was built.
// npx links this file when it first runs, so it must always be there.
import { existsSync } from 'node:fs';

const sources = new URL('../cli/bin.ts', import.meta.url);
const built = new URL('../lib/cli.js', import.meta.url);

/** From Node 22.18 on. */
const runsTypeScript = Boolean(process.features.typescript);

if (existsSync(sources) && runsTypeScript) await import(sources.href);
else if (existsSync(built)) await import(built.href);
else {
  console.error('weir: run `npm ci` first: the sources need its Node. Or run `npm run build:package`.');
  process.exitCode = 1;
}
