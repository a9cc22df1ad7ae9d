// Two tiers: `node` (core, local stack, end to end) and `workerd` (what must run inside the Workers runtime).
import { readFileSync } from 'node:fs';
import { cloudflareTest } from '@cloudflare/vitest-plugin';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';
import { createSharedParts } from './test/shared/parts.ts';

/** What `[[rules]] type = "Text"` in wrangler.toml does for the Worker. */
const luaAsText: Plugin = {
  name: 'lua-as-text',
  load(id) {
    return id.endsWith('.lua') ? `export default ${JSON.stringify(readFileSync(id, 'utf8'))}` : undefined;
  },
};

const TIMEOUTS = { testTimeout: 60_000, hookTimeout: 120_000 };

export default defineConfig({
  test: {
    reporters: ['default', './test/closing-line.ts'],
    globalSetup: ['test/shared/setup.ts'],
    // Tests wait for processes, sockets and clocks about as long as they compute.
    maxWorkers: 3,
    projects: [
      {
        plugins: [luaAsText],
        test: {
          name: 'node',
          include: ['test/**/*.test.ts'],
          exclude: ['test/workerd/**'],
          ...TIMEOUTS,
        },
      },
      {
        plugins: [
          // Asked once for each file, which so has a stack of its own.
          cloudflareTest(async ({ inject }) => ({
            wrangler: { configPath: './wrangler.toml' },
            miniflare: {
              bindings: {
                ...(await createSharedParts(inject('sharedParts')).openStack()),
                ADMIN_TOKEN: 'an-admin-token-for-tests',
                // All parts share this machine: what is tested here is not the deadline.
                DEADLINE_MS: '2000',
              },
            },
          })),
        ],
        test: {
          name: 'workerd',
          include: ['test/workerd/**/*.test.ts'],
          ...TIMEOUTS,
        },
      },
    ],
  },
});
