// Two tiers: `node` (core, local stack, end to end) and `workerd` (what must run inside the Workers runtime).
import { readFileSync } from 'node:fs';
import { cloudflareTest } from '@cloudflare/vitest-plugin';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

/** What `[[rules]] type = "Text"` in wrangler.toml does for the Worker. */
const luaAsText: Plugin = {
  name: 'lua-as-text',
  load(id) {
    return id.endsWith('.lua') ? `export default ${JSON.stringify(readFileSync(id, 'utf8'))}` : undefined;
  },
};

export default defineConfig({
  test: {
    reporters: ['default', './test/closing-line.ts'],
    projects: [
      {
        plugins: [luaAsText],
        test: {
          name: 'node',
          include: ['test/**/*.test.ts'],
          exclude: ['test/workerd/**'],
          globalSetup: ['test/install-redis.ts'],
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      {
        plugins: [
          cloudflareTest(({ inject }) => ({
            wrangler: { configPath: './wrangler.toml' },
            miniflare: { bindings: inject('workerVariables') },
          })),
        ],
        test: {
          name: 'workerd',
          include: ['test/workerd/**/*.test.ts'],
          globalSetup: ['test/install-redis.ts', 'test/workerd/start-stack.ts'],
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
