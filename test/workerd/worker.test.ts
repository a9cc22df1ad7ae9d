/// <reference types="vite/types/importMeta.d.ts" />
// All suites of this folder, in one file: each file would start the runtime and load the Worker for itself, which takes
// more processor time than its tests. The suites share one stack, so each of them begins with the rules it needs.
import { describe } from 'vitest';

// Imported inside its `describe`, so that the hooks of a suite are for its tests alone.
for (const [file, load] of Object.entries(import.meta.glob('./*-suite.ts')))
  describe(file, async () => void (await load()));
